// Running another program, without a shell.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace jitstep::jit {

/// Names and values of an environment.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// The variables of this process with some set, or taken away where the value is empty.
Variables own_variables(const Variables& changes = {});

/// How a program ended and all it wrote.
struct Finished {
  /// The exit status; 128 + n after signal n; -1 if the host process ignores its children's ends.
  int status = 0;
  std::string output;    // standard output and error together
  bool stopped = false;  // it ran past its limit and was killed with all that it had started
};

/// Runs `arguments[0]` (a path) to its end, or for `limit` if that is not zero, with `input` as its
/// standard input and `environment` as its whole environment, in a process group of its own. An Error
/// if it cannot be started.
Finished run_program(const std::vector<std::string>& arguments, std::string_view input,
                     const Variables& environment, std::chrono::seconds limit = {});

/// The path of a program: `name` itself if it holds a slash, else looked up in the colon-separated
/// `path`. Empty if there is no such executable file.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace jitstep::jit
