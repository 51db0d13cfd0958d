// The command line: all commands with their flags.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace jitstep::tool {

/// Adds all commands. A command sets `status` when it runs (see usage.h).
void build_app(CLI::App& app, int& status);

/// Prints the help of a command that needs a subcommand and has none.
void need_subcommand(CLI::App& command);

/// Adds a command with a one-line description. `group` is its heading in the help. The caller sets the callback.
CLI::App* add_command(CLI::App& app, const char* group, const char* name, const char* what);

/// The error message for a command line that does not parse. It suggests the closest known name.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

}  // namespace jitstep::tool
