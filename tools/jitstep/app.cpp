#include "app.h"

#include <jit/base/closest.h>
#include <jit/base/text.h>
#include <jitstep/version.h>

#include "command.h"
#include "flag_values.h"
#include "help_format.h"
#include "usage.h"

namespace jitstep::tool {
namespace {

using namespace jitstep::jit;

// The variables of docs/reference/environment.md.
constexpr const char* kFooter =
    R"(Run `jitstep COMMAND --help` for the flags and examples of a command.

Exit status:
  0    success
  1    failure
  2    usage error: a mistake in the command line
  3    incomplete check: no error was found, but a part could not be checked
  130  interrupted

Environment:
  JITSTEP_CACHE_DIR        folder of compiled kernels (default: ~/.cache/jitstep)
  JITSTEP_CACHE_READONLY   folder of compiled kernels that is never written
  JITSTEP_TEMPLATES        folder of templates in place of the built-in ones
  JITSTEP_DUMP             folder that gets the source and binary of each new kernel
  JITSTEP_OVERRIDE         folder with edited kernels, as JITSTEP_DUMP writes it
  JITSTEP_CXX              host compiler for CPU kernels (default: c++, g++, clang++)
  JITSTEP_CPU              processor of CPU kernels: native, x86-64 to x86-64-v4
  JITSTEP_COMPILE_SECONDS  time limit of the host compiler (default: 300; 0: none)
  JITSTEP_NVRTC            libnvrtc, or its folder
  JITSTEP_CHECK            1: check rules for unset values
  JITSTEP_TUNE             1: optimizers tune their kernels in their first steps
  JITSTEP_LOG              log level: off, warn, info or debug (default: warn)
  WORLD_SIZE               above 1: tuning in steps needs an agreement of all ranks
  TMPDIR                   temporary files of the compiler (default: /dev/shm, else /tmp))";

// The innermost command that was parsed. It holds the unexpected arguments.
const CLI::App& last_parsed(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  return *command;
}

std::string full_name(const CLI::App& command) {
  if (command.get_parent() == nullptr) return command.get_name();
  return full_name(*command.get_parent()) + " " + command.get_name();
}

std::string unexpected_argument(const CLI::App& command, const std::string& argument) {
  if (argument.starts_with('-')) {
    const std::string flag = argument.substr(0, argument.find('='));
    std::vector<std::string> flags;
    for (const CLI::Option* one : command.get_options())
      for (const std::string& name : one->get_lnames()) flags.push_back("--" + name);
    return str_cat("there is no flag \"", flag, "\"", did_you_mean(flag, flags));
  }
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(one->get_name());
  if (names.empty()) return str_cat("the argument \"", argument, "\" was not expected");
  return str_cat("there is no command \"", argument, "\"", did_you_mean(argument, names));
}

// CLI11 says "spec excludes --rule". Other commands take the name of a rule in the place of the JSON.
std::string excluded(const CLI::ExcludesError& error) {
  const std::string what = error.what();
  const std::string_view between = " excludes ";
  const std::size_t at = what.find(between);
  if (at == what.npos) return what;
  const std::string first = what.substr(0, at), other = what.substr(at + between.size());
  const char* const hint = first != "spec"     ? ""
                           : other == "--rule" ? ", which names the rule. Leave one out"
                                               : ", which is JSON. To name a rule, use --rule";
  return str_cat(other, " cannot be given together with ", first, hint);
}

std::string problem_of(const CLI::App& command, const CLI::ParseError& error) {
  const std::vector<std::string> rest = command.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty())
    return unexpected_argument(command, rest.front());
  if (const auto* const both = dynamic_cast<const CLI::ExcludesError*>(&error))
    return excluded(*both);
  return error.what();
}

}  // namespace

CLI::App* add_command(CLI::App& app, const char* group, const char* name, const char* what) {
  return app.add_subcommand(name, what)->group(group);
}

// require_subcommand(1) is not used, because it reports an unknown command as a missing one.
void need_subcommand(CLI::App& command) {
  command.require_subcommand(0, 1);
  command.callback([&command] {
    if (command.get_subcommands().empty()) throw CLI::CallForHelp();
  });
}

std::string parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = last_parsed(app);
  return str_cat(problem_of(command, error), ". Run `", full_name(command), " --help`.");
}

void build_app(CLI::App& app, int& status) {
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("-h,--help", "Print this help");
  add_list_command(app, status);
  add_show_command(app, status);
  add_inspect_command(app, status);
  add_memory_command(app, status);
  add_convert_command(app, status);
  add_tune_command(app, status);
  add_bench_command(app, status);
  add_check_command(app, status);
  add_compile_command(app, status);
  add_doctor_command(app, status);
  add_cache_command(app, status);
  add_completion_command(app, status);
  app.set_version_flag("--version", std::string("jitstep ") + jitstep::version(),
                       "Print the version");
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    for (CLI::App* one : command->get_subcommands([](CLI::App*) { return true; }))
      one->group("Commands");  // otherwise they inherit the group of their parent
  app.footer(kFooter);         // last, because commands that are added later inherit it
  need_subcommand(app);
}

}  // namespace jitstep::tool
