// The command line: all commands with their flags.
#pragma once

#include <CLI/CLI.hpp>

namespace jitstep::tool {

/// Adds every command. A command that runs sets `status` (see usage.h).
void build_app(CLI::App& app, int& status);

/// Prints the help of a command that needs a subcommand and has none.
void need_subcommand(CLI::App& command);

/// Adds a command without an action, as parents of others do: its name, its group in the help and what it does.
CLI::App* add_command(CLI::App& app, const char* group, const char* name, const char* what);

/// What is wrong with the command line, with the closest known name.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

}  // namespace jitstep::tool
