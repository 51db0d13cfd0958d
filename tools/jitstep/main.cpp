// The command-line tool. command.h declares the commands. Each has a source file in this folder.
#include <jitstep/jit/error.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <string_view>

#include "app.h"
#include "cache/actions.h"
#include "completion.h"
#include "output.h"
#include "usage.h"

namespace {

using namespace jitstep::tool;

// Returns the exit status. It reports parse errors of CLI11 itself and throws all other errors.
int run(int argc, char** argv, bool as_json) {
  CLI::App app("Fused optimizer kernels for LibTorch: explore, plan, tune and extend them.",
               "jitstep");
  int status = kSuccess;
  build_app(app, status);
  if (argc > 1 && argv[1] == std::string_view(kComplete)) {
    for (const std::string& one : completions(app, {argv + 2, argv + argc}))
      std::cout << one << "\n";
    return status_of_output(kSuccess);
  }
  jitstep::jit::set_warning_handler(
      [](const std::string& warning) { std::cerr << "jitstep: " << warning << "\n"; });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return status_of_output(app.exit(error));
    return report_error(parse_problem(app, error), kUsage, as_json);
  }
  // A rejected cache folder makes only `jitstep cache` fail.
  if (status == kSuccess && app.got_subcommand("cache") && cache::rejects_a_folder())
    status = kFailure;
  return status_of_output(status);
}

}  // namespace

int main(int argc, char** argv) {
  const bool as_json = std::any_of(
      argv, argv + argc, [](const char* arg) { return arg == std::string_view("--json"); });
  try {
    return run(argc, argv, as_json);
  } catch (const UsageError& error) {
    return report_error(error.what(), kUsage, as_json);
  } catch (const std::exception& error) {
    return report_error(error.what(), kFailure, as_json);
  }
}
