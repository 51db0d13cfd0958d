// Compares work items of several sizes (KernelConfig::leaves_per_item) with the default, on the CPU. Each round measures
// every size once, and the order alternates between rounds, so that a drift of the machine's speed has no effect.
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/engine.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <regex>
#include <sstream>

#include "jit/base/numbers.h"
#include "tuning/host_device.h"

namespace jitstep::bench {
namespace {

struct Flags {
  std::string rule = "adafactor";
  std::vector<std::string> shapes = {"4096x4096", "1024x1024", "300x17", "64x64x3x3"};
  std::vector<int> leaves = {64, 256};
  int threads = 1, rounds = 31;
};

// The sizes of "4096x4096".
std::vector<std::int64_t> sizes_of(const std::string& shape) {
  std::vector<std::int64_t> sizes;
  std::istringstream parts(shape);
  for (std::string size; std::getline(parts, size, 'x');) sizes.push_back(std::stoll(size));
  return sizes;
}

// CLI11 takes the text of a problem, or "".
std::string is_shape(const std::string& shape) {
  const bool fits = std::regex_match(shape, std::regex("[0-9]{1,9}(x[0-9]{1,9})*"));
  return fits ? "" : "\"" + shape + "\" is no shape such as 300x17";
}

std::string rule_of(const std::string& name_or_path) {
  if (!std::filesystem::exists(name_or_path)) return name_or_path;
  return jit::default_catalog().load_rule(name_or_path).name;
}

// The default, then the sizes that differ from it and that the kernel can run with.
std::vector<KernelConfig> configs_of(const tuning::Workload& workload, tuning::TuningDevice& device,
                                     const std::vector<int>& leaves) {
  const jit::Target& target = device.hardware().target;
  std::vector<KernelConfig> configs = {jit::default_kernel_config(workload.plan, target)};
  for (const int count : leaves) {
    KernelConfig config = configs.front();
    config.leaves_per_item = count;
    if (config == configs.front() || jit::config_problem(workload.plan, config, target)) continue;
    if (!device.check(config)) configs.push_back(config);
  }
  return configs;
}

void measure(const tuning::Workload& workload, const std::string& shape, const Flags& flags) {
  tuning::HostDevice device(jit::default_engine(),
                            {.threads = flags.threads, .least_seconds = 3e-3});
  device.begin(workload);
  const std::vector<KernelConfig> configs = configs_of(workload, device, flags.leaves);
  std::vector<std::vector<double>> seconds(configs.size());
  for (const KernelConfig& config : configs) device.seconds(config);
  for (int round = 0; round < flags.rounds; ++round)
    for (std::size_t i = 0; i < configs.size(); ++i) {
      const std::size_t next = round % 2 == 0 ? i : configs.size() - 1 - i;
      seconds[next].push_back(device.seconds(configs[next]));
    }
  std::printf("%-12s %-10s %10.1f us", flags.rule.c_str(), shape.c_str(),
              jit::quantile(seconds[0], 0.5) * 1e6);
  for (std::size_t i = 1; i < configs.size(); ++i) {
    std::vector<double> gains;
    for (std::size_t round = 0; round < seconds[0].size(); ++round)
      gains.push_back(seconds[0][round] / seconds[i][round]);
    std::printf("  %d: %.2f (%.2f to %.2f)", configs[i].leaves_per_item, jit::quantile(gains, 0.5),
                jit::quantile(gains, 0.25), jit::quantile(gains, 0.75));
  }
  std::printf("\n");
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Flags flags;
  CLI::App app("Compares sizes of work items with the default: median gains, with their quartiles");
  app.add_option("--rule", flags.rule, "Optimizer: a name, or your own file")
      ->capture_default_str();
  app.add_option("--shapes", flags.shapes, "Shapes of one tensor each, such as 300x17")
      ->delimiter(',')
      ->check(is_shape);
  app.add_option("--leaves", flags.leaves, "Values of leaves_per_item")->delimiter(',');
  app.add_option("--threads", flags.threads, "Number of threads")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", flags.rounds, "Number of rounds")->check(CLI::Range(1, 10000));
  CLI11_PARSE(app, argc, argv);
  const tuning::TuningRequest request{.options = jit::OptionValues(rule_of(flags.rule))};
  for (const std::string& shape : flags.shapes)
    for (const tuning::Workload& workload : tuning::workloads(request, {sizes_of(shape)}))
      measure(workload, shape, flags);
  return 0;
}

}  // namespace
}  // namespace jitstep::bench

int main(int argc, char** argv) {
  try {
    return jitstep::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "config_benchmark: " << error.what() << "\n";
    return 1;
  }
}
