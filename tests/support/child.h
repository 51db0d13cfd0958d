// Work in a forked child: what it found, faults put into its system calls, its death at one of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace jitstep::testing {

/// Runs `work` in a forked child and returns what it returned (empty if all was well), or how the
/// child died. A child that hangs is killed after two minutes.
std::string in_child(const std::function<std::string()>& work);

/// Whether `work` returns true there.
bool child_says(const std::function<bool()>& work);

/// The same as in_child in `count` children at once; each is told its number.
std::vector<std::string> in_children(int count, const std::function<std::string(int)>& work);

/// Makes system calls of this process fail with `error` from now on, by a seccomp filter. An error
/// of 0 kills the process instead. Returns false if the system does not allow it.
bool fail_system_calls(const std::vector<long>& numbers, int error);

/// Gives this process mounts of its own, as root or in a new user namespace. Returns false if the
/// system does not allow it.
bool enter_mount_namespace();

/// What tests say when the system does not allow what they need.
inline constexpr char kNotAllowed[] = "this system does not allow it";

/// Runs `work` in a child that has a disk of `kib` KiB mounted at a folder. kNotAllowed if the
/// system does not let it.
std::string on_a_small_disk(const std::string& folder, int kib,
                            const std::function<std::string()>& work);

/// How a traced child ended.
enum class Traced { killed, finished, refused };

/// Runs `work` in a child and kills it with SIGKILL at its `stop`-th stop, counted from 1: each
/// system call has one before and one after. `refused`: the system does not allow tracing.
Traced kill_at_stop(int stop, const std::function<void()>& work);

}  // namespace jitstep::testing
