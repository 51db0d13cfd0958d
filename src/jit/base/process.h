// Running another program, without a shell.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "jit/base/spawn.h"

namespace jitstep::jit {

/// The variables of this process with some set, or taken away where the value is empty.
Variables own_variables(const Variables& changes = {});

/// How a program ended and what it wrote.
struct Finished {
  /// The exit status; 128 + n after signal n; -1 if the host process ignores its children's ends.
  int status = 0;
  std::string output;    // standard output and error together
  bool stopped = false;  // it ran past its limit and was killed with all that it had started
};

/// What a program may take.
struct Limits {
  std::chrono::seconds time{};  // zero: for ever
  /// Of an output of more than twice as many bytes, so many are kept at each end; no more memory is used.
  std::size_t output_ends = std::numeric_limits<std::size_t>::max() / 4;
};

/// Runs `arguments[0]` (a path) to its end with `input` as its standard input and `environment` as its whole
/// environment, in a process group of its own. All of the group is killed when this process ends, by whatever signal.
/// An Error if it cannot be started.
Finished run_program(const std::vector<std::string>& arguments, std::string_view input,
                     const Variables& environment, const Limits& limits = {});

/// The path of a program: `name` itself if it holds a slash, else looked up in the colon-separated
/// `path`. Empty if there is no such executable file.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace jitstep::jit
