// Time of one optimizer step beside torch's, on a CPU or a GPU, in one run: rounds are paired, medians
// are compared. The floor is what a copy moves in the same run.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "contenders.h"
#include "jitstep/jitstep.h"
#include "stopwatch.h"

namespace jitstep::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string device = "cpu", json, kernels;
  int threads = 0, rounds = 11;
};

// Bytes read and written per second by the fastest of several copies.
double copy_bandwidth(const torch::Device& device) {
  const std::int64_t bytes = device.is_cpu() ? 256 << 20 : std::int64_t{2} << 30;
  const auto from = torch::ones({bytes / 4}, device);
  auto to = torch::empty_like(from);
  double best = 1e9;
  for (int round = 0; round < 7; ++round)
    best = std::min(best, seconds(device, 1, [&] { to.copy_(from); }));
  return 2.0 * static_cast<double>(bytes) / best;
}

Json compare(const Workload& workload, const torch::Device& device, const Flags& flags,
             double bandwidth) {
  std::vector<Contender> all = contenders(workload, device);
  const int repeats = device.is_cpu() ? 1 : 10;
  for (int round = -2; round < flags.rounds; ++round)
    for (Contender& one : all) {
      const double time = seconds(device, repeats, one.step) / repeats;
      if (round >= 0) one.seconds.push_back(time);
    }
  const double loop = all[0].median(), fused = all[1].median();
  std::printf("\n%s\n%-22s %10s %10s %8s %8s %9s %9s\n", workload.name.c_str(), "", "ms/step",
              "Mparam/s", "GB/s", "of copy", "vs loop", "vs fused");
  Json rows = Json::array();
  for (const Contender& one : all) {
    const double time = one.median(), rate = one.bytes / time;
    const double elements = static_cast<double>(workload.elements());
    std::printf("%-22s %10.4f %10.1f %8.1f %7.0f%% %8.2fx %8.2fx\n", one.name.c_str(), 1e3 * time,
                elements / time / 1e6, rate / 1e9, 100 * rate / bandwidth, loop / time,
                fused / time);
    rows.push_back({{"name", one.name},
                    {"seconds", time},
                    {"bytes", one.bytes},
                    {"parameters_per_second", elements / time},
                    {"fraction_of_copy", rate / bandwidth},
                    {"times_as_fast_as_fused", fused / time}});
  }
  return {{"workload", workload.name}, {"elements", workload.elements()}, {"rows", rows}};
}

// What a step costs the host: empty parameters, so that the device has nothing to do.
double host_cost(int count, const torch::Device& device) {
  AdamW optimizer(
      make_parameters(std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), device),
      AdamWOptions(1e-3));
  Contender steps{"", [&] { optimizer.step(); }};
  for (int round = -5; round < 200; ++round) {
    const double time = host_seconds(1, steps.step);
    if (round >= 0) steps.seconds.push_back(time);
  }
  return steps.median();
}

Json run(const Flags& flags) {
  const torch::Device device(flags.device);
  if (flags.threads > 0) torch::set_num_threads(flags.threads);
  const double bandwidth = copy_bandwidth(device);
  std::printf("device %s, torch %s, threads %d, copy bandwidth %.1f GB/s\n", flags.device.c_str(),
              TORCH_VERSION, torch::get_num_threads(), bandwidth / 1e9);
  Json result = {{"device", flags.device},
                 {"torch", TORCH_VERSION},
                 {"threads", torch::get_num_threads()},
                 {"copy_bytes_per_second", bandwidth},
                 {"comparisons", Json::array()}};
  for (const Workload& workload : workloads(device))
    result["comparisons"].push_back(compare(workload, device, flags, bandwidth));
  constexpr int kParameters = 700;
  const double cost = host_cost(kParameters, device);
  std::printf("\nhost time of a step of %d empty parameters: %.1f us\n", kParameters, 1e6 * cost);
  result["host_seconds_of_700_parameters"] = cost;
  return result;
}

}  // namespace
}  // namespace jitstep::bench

int main(int argc, char** argv) {
  using namespace jitstep::bench;
  Flags flags;
  CLI::App app("Times optimizer steps beside torch's.");
  app.add_option("--device", flags.device, "cpu or cuda (default cpu)");
  app.add_option("--threads", flags.threads, "of the CPU (default: torch's)");
  app.add_option("--rounds", flags.rounds, "paired rounds (default 11)")->check(CLI::Range(1, 999));
  app.add_option("--json", flags.json, "write the numbers to this file too");
  app.add_option(
      "--kernels", flags.kernels,
      "compile the kernels for this target, such as sm_90, print what they use and stop");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!flags.kernels.empty()) {
      std::cout << kernel_table(flags.kernels);
      return 0;
    }
    const Json result = run(flags);
    if (!flags.json.empty() && !(std::ofstream(flags.json) << result.dump(2) << "\n"))
      throw std::runtime_error("cannot write " + flags.json);
  } catch (const std::exception& error) {
    std::cerr << "step_benchmark: " << error.what() << "\n";
    return 1;
  }
}
