// Running another program, without a shell.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace jitstep::jit {

/// How a program ended and all it wrote.
struct Finished {
  /// The exit status; 128 + n after signal n; -1 if the host process ignores its children's ends.
  int status = 0;
  std::string output;  // standard output and error together
};

/// Runs `arguments[0]` (a path) to its end with `input` as its standard input. `environment` names
/// variables to set over those of this process, or with an empty value to take away. An Error if it
/// cannot be started.
Finished run_program(const std::vector<std::string>& arguments, std::string_view input,
                     const std::vector<std::pair<std::string, std::string>>& environment);

/// The path of a program: `name` itself if it holds a slash, else looked up in the colon-separated
/// `path`. Empty if there is no such executable file.
std::string find_program(const std::string& name, const std::string& path);

}  // namespace jitstep::jit
