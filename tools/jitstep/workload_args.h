// Workloads as flags name them: an optimizer with one or several state formats, and sizes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "optimizer_args.h"
#include "tuning/workload.h"

namespace jitstep::tool {

/// The most that --threads takes: more than machines have, and few enough to start.
inline constexpr int kMostThreads = 1024;

/// The values of the flags, as they were given.
struct WorkloadArgs {
  OptimizerArgs optimizer;
  std::vector<std::string> states;  // of --states, in the place of --state
  std::string model;                // excludes sizes
  std::vector<std::string> sizes = {"4k", "1M", "16M"};
};

/// Declares the flags of an optimizer, and --states, --sizes and --model.
void add_workload_args(CLI::App& command, WorkloadArgs& args);

/// One workload per state format and size. A UsageError, or an Error if a file cannot be read.
std::vector<tuning::Workload> workloads_of(const WorkloadArgs& args);

/// Splits a list at commas, but not at those inside a codec's JSON.
std::vector<std::string> split_states(const std::vector<std::string>& given);

/// Seconds, of "90", "60s", "5m" or "1h". A UsageError for anything else.
double parse_seconds(const std::string& word);

}  // namespace jitstep::tool
