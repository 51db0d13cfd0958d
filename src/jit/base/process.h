// Runs another program, without a shell.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "jit/base/spawn.h"

namespace jitstep::jit {

/// The environment of this process with `changes` applied. An empty value removes a variable.
Variables own_variables(const Variables& changes = {});

/// Exit status and output of a program.
struct Finished {
  /// The exit status. 128 + n after signal n. -1 if the host process ignores SIGCHLD.
  int status = 0;
  std::string output;    // standard output and error together
  bool stopped = false;  // it exceeded its limit; jitstep killed it and its children
};

/// Limits for a program.
struct Limits {
  std::chrono::seconds time{};  // zero: no limit
  /// If the output has more than twice this many bytes, only this many at both ends are stored.
  std::size_t output_ends = std::numeric_limits<std::size_t>::max() / 4;
};

/// Runs `arguments[0]`, a path, until it ends, in its own process group. `input` is its standard input and
/// `environment` its complete environment. The group is killed when this process ends, by whatever signal. Throws an
/// Error if the program cannot be started, and Interrupted if the host ends the wait (interrupt.h).
Finished run_program(const std::vector<std::string>& arguments, std::string_view input,
                     const Variables& environment, const Limits& limits = {});

/// The path of a program: `name` itself if it contains a slash, else the first match in the colon-separated `path`.
/// Empty if there is no such executable file. Relative folders of `path`, such as an empty one, are skipped: what they
/// mean changes with the working directory.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace jitstep::jit
