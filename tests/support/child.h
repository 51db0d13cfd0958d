// Runs work in a forked child: returns its result, injects faults into its system calls, or kills it at one of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace jitstep::testing {

/// Runs `work` in a forked child. Returns the result of `work` (empty for success), or how the child died. Kills a
/// child that hangs for two minutes.
std::string in_child(const std::function<std::string()>& work);

/// Whether `work` returns true in a forked child.
bool child_says(const std::function<bool()>& work);

/// Like in_child, with `count` children at once. Each receives its number.
std::vector<std::string> in_children(int count, const std::function<std::string(int)>& work);

/// Lets later system calls of this process fail with `error`, by a seccomp filter. An error of 0 kills the process
/// instead. Returns false if the system does not allow it.
bool fail_system_calls(const std::vector<long>& numbers, int error);

/// Gives this process its own mount namespace, as root or in a new user namespace. Returns false if the system does not
/// allow it.
bool enter_mount_namespace();

/// The result of tests if the system does not allow an operation.
inline constexpr char kNotAllowed[] = "this system does not allow it";

/// Runs `work` in a child with a disk of `kib` KiB mounted at a folder. Returns kNotAllowed if the system does not
/// allow it.
std::string on_a_small_disk(const std::string& folder, int kib,
                            const std::function<std::string()>& work);

/// How a traced child ended.
enum class Traced { killed, finished, not_allowed };

/// Runs `work` in a child and kills it with SIGKILL at its `stop`-th stop, counted from 1. Each system call has one
/// stop before and one after it. With `calls`, only the stops of these system calls count. `work` may execute another
/// program. `not_allowed`: the system does not allow tracing.
Traced kill_at_stop(int stop, const std::function<void()>& work,
                    const std::vector<long>& calls = {});

}  // namespace jitstep::testing
