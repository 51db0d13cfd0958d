// The subcommands of the tool.
#pragma once

#include <CLI/CLI.hpp>

namespace jitstep::tool {

/// Has a command refuse to run without one of its subcommands, naming the word that is none.
void need_subcommand(CLI::App& command);

/// Adds a subcommand, which sets the tool's exit status when it runs: 0, or 1 for bad news.
void add_cache_command(CLI::App& app, int& status);
/// The same; 3 stands for what could not be checked.
void add_check_command(CLI::App& app, int& status);
void add_catalogue_command(CLI::App& app, int& status);
void add_compile_command(CLI::App& app, int& status);
void add_doctor_command(CLI::App& app, int& status);
void add_inspect_command(CLI::App& app, int& status);
void add_list_command(CLI::App& app, int& status);
void add_plan_command(CLI::App& app, int& status);
void add_bench_command(CLI::App& app, int& status);
/// The same; 130 if it was interrupted.
void add_tune_command(CLI::App& app, int& status);
void add_show_command(CLI::App& app, int& status);

}  // namespace jitstep::tool
