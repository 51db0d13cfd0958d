// The command-line tool. Each subcommand is a source in jitstep/ and is declared in command.h.
#include <jitstep/jit/log.h>
#include <jitstep/version.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>

#include "command.h"
#include "convert.h"
#include "output.h"

namespace {
constexpr int kUsage = 2;
}

// Not by require_subcommand(1), which takes a wrong word for none.
void jitstep::tool::need_subcommand(CLI::App& command) {
  command.require_subcommand(0, 1);
  command.callback([&command] {
    if (command.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
  });
}

int main(int argc, char** argv) {
  CLI::App app(
      "Shows and checks rules and codecs, plans memory, and looks after the compiled kernels of "
      "jitstep.",
      "jitstep");
  app.set_version_flag("--version", jitstep::version());
  jitstep::tool::need_subcommand(app);
  int status = 0;
  bool warned = false;
  jitstep::jit::set_warning_handler([&](const std::string& warning) {
    std::cerr << "jitstep: " << warning << "\n";
    warned = true;
  });
  jitstep::tool::add_check_command(app, status);
  jitstep::tool::add_cache_command(app, status);
  jitstep::tool::add_catalogue_command(app, status);
  jitstep::tool::add_compile_command(app, status);
  jitstep::tool::add_convert_command(app);
  jitstep::tool::add_doctor_command(app, status);
  jitstep::tool::add_inspect_command(app, status);
  jitstep::tool::add_list_command(app, status);
  jitstep::tool::add_plan_command(app, status);
  jitstep::tool::add_tune_command(app, status);
  jitstep::tool::add_bench_command(app, status);
  jitstep::tool::add_show_command(app, status);
  try {
    if (argc > 1 && argv[1] == std::string_view("convert"))
      jitstep::tool::hand_over_convert(argv + 1);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return jitstep::tool::status_of_output(app.exit(error) == 0 ? 0 : kUsage);
  } catch (const std::exception& error) {
    std::cerr << "jitstep: " << error.what() << "\n";
    return 1;
  }
  // A folder that is refused is bad news for who looks after it, and for nobody else.
  if (warned && status == 0 && app.got_subcommand("cache")) status = 1;
  return jitstep::tool::status_of_output(status);
}
