// The flags that name workloads: an optimizer with one or several state formats, and sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optimizer_args.h"
#include "tuning/workload.h"

namespace CLI {
class App;
}

namespace jitstep::tool {

/// The largest value of --threads: above the processor count of most machines, and few enough to start.
inline constexpr int kMostThreads = 1024;

/// The default of --scratch in MiB.
inline constexpr std::int64_t kScratchMib = 4096;

/// The values of the flags, not validated.
struct WorkloadArgs {
  OptimizerArgs optimizer;
  std::vector<std::string> states;  // --states, which excludes --state
  std::string model;                // --model, which excludes --sizes
  std::vector<std::string> sizes = {"4k", "1M", "16M"};
};

/// Declares the flags of an optimizer, and --states, --sizes and --model.
void add_workload_args(CLI::App& command, WorkloadArgs& args);

/// Declares --scratch, the limit of the memory of workloads, in MiB.
void add_scratch_arg(CLI::App& command, std::int64_t& mib);

/// One workload per state format and size. Throws a UsageError, or an Error if a file cannot be read.
std::vector<tuning::Workload> workloads_of(const WorkloadArgs& args);

/// Splits lists at commas, except inside a codec's JSON.
std::vector<std::string> split_states(const std::vector<std::string>& given);

/// Seconds of "90", "60s", "5m" or "1h". Throws a UsageError for anything else.
double parse_seconds(const std::string& word);

}  // namespace jitstep::tool
