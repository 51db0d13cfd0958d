// The words of a command line that name an optimizer's kernels: rule, options, formats, dtypes, sizes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "optimizer_words.h"
#include "tuning/workload.h"

namespace jitstep::tool {

/// That --threads may say: more than machines have, and fewer than they refuse to start.
inline constexpr int kMostThreads = 1024;

/// As they are given; sizes or a model, not both.
struct KernelWords {
  OptimizerWords optimizer;  // but for its state
  std::string model;
  std::vector<std::string> states = {"fp32"};
  std::vector<std::string> sizes = {"4k", "1M", "16M"};
};

/// Adds --rule, --set, --state (one or several), --weights, --param, --grad, --sizes and --model.
void add_kernel_words(CLI::App& command, KernelWords& words);

/// The kernels that are meant, by state and size. An Error says what is wrong.
std::vector<tuning::Workload> workloads_of(const KernelWords& words);

/// Seconds as "90", "60s", "5m" or "1h". An Error for anything else.
double parse_seconds(const std::string& word);

}  // namespace jitstep::tool
