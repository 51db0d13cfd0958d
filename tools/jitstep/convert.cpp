// The work is a program's of its own, as it takes LibTorch, without which this one starts sooner.
#include "convert.h"

#include <jit/base/text.h>
#include <jitstep/jit/error.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace jitstep::tool {

namespace fs = std::filesystem;

void add_convert_command(CLI::App& app) {
  app.add_subcommand("convert",
                     "Writes the state that an optimizer saved to a file in other formats");
}

void hand_over_convert(char** arguments) {
  std::string program = fs::read_symlink("/proc/self/exe").replace_filename("jitstep-convert");
  if (!fs::exists(program))
    throw jit::Error(jit::text("convert is the work of ", program,
                               ", which is not there: build jitstep with LibTorch "
                               "(-DJITSTEP_BUILD_TORCH=ON), which makes and installs it"));
  arguments[0] = program.data();
  ::execv(program.c_str(), arguments);
  throw jit::Error(jit::text("cannot start ", program, ": ", std::strerror(errno)));
}

}  // namespace jitstep::tool
