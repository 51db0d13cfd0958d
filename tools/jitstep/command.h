// The commands of the tool, and helpers that they share.
#pragma once

#include <CLI/CLI.hpp>

#include "app.h"

namespace jitstep::tool {

// Groups of commands in `jitstep --help`.
inline constexpr const char* kExplore = "Explore";
inline constexpr const char* kPlan = "Plan";
inline constexpr const char* kPerformance = "Performance";
inline constexpr const char* kExtend = "Extend";
inline constexpr const char* kMaintain = "Maintain";

/// Declares --json.
inline void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print JSON");
}

// Each function adds a command. The command sets `status`, the exit status, when it runs.
void add_bench_command(CLI::App& app, int& status);
void add_cache_command(CLI::App& app, int& status);
void add_check_command(CLI::App& app, int& status);
void add_compile_command(CLI::App& app, int& status);
void add_completion_command(CLI::App& app, int& status);
void add_convert_command(CLI::App& app, int& status);
void add_doctor_command(CLI::App& app, int& status);
void add_inspect_command(CLI::App& app, int& status);
void add_list_command(CLI::App& app, int& status);
void add_memory_command(CLI::App& app, int& status);
void add_show_command(CLI::App& app, int& status);
void add_tune_command(CLI::App& app, int& status);

}  // namespace jitstep::tool
