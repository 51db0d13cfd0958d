// jitstep convert: starts the program jitstep-convert. It is a separate program because it needs LibTorch, which takes
// ten times as long to load as this tool.
#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "command.h"
#include "convert_args.h"

namespace jitstep::tool {
namespace {

namespace fs = std::filesystem;

// Replaces this process by jitstep-convert, with the arguments from the first "convert" on.
[[noreturn]] void start(std::vector<std::string> arguments) {
  const std::string program =
      fs::read_symlink("/proc/self/exe").replace_filename("jitstep-convert");
  if (!fs::exists(program))
    throw jit::Error(jit::str_cat(
        "cannot convert: the program ", program,
        " is missing. Build the target jitstep_convert of a clone with LibTorch, and install."));
  std::vector<char*> pointers;
  for (std::string& one : arguments) pointers.push_back(one.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  throw jit::Error(jit::str_cat("cannot start ", program, ": ", std::strerror(errno)));
}

std::vector<std::string> arguments_of_process() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> all;
  for (std::string one; std::getline(file, one, '\0');) all.push_back(one);
  return all;
}

}  // namespace

void add_convert_command(CLI::App& app, int&) {
  CLI::App* const command = add_command(app, kPlan, "convert", kConvertSummary);
  const auto args = std::make_shared<ConvertArgs>();
  add_convert_args(*command, *args);
  command->callback([args] {
    std::vector<std::string> all = arguments_of_process();
    const auto name = std::find(all.begin(), all.end(), "convert");
    start({name, all.end()});
  });
}

}  // namespace jitstep::tool
