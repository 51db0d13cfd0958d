// Compares the time of an optimizer step with torch's, on a CPU or a GPU, in one run. Rounds are paired, and medians
// are compared. One implementation is the bandwidth baseline: on a CPU a plain loop over the same bytes, on a GPU a
// copy of as many bytes.
#include <torch/utils.h>
#include <torch/version.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "implementations.h"
#include "jitstep/jitstep.h"
#include "kernel_table.h"
#include "stopwatch.h"
#include "workloads.h"

namespace jitstep::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string device = "cpu", json, kernels;
  std::vector<std::string> workloads;
  int threads = 0, rounds = 11;
};

std::vector<Workload> wanted_workloads(const torch::Device& device, const Flags& flags) {
  if (!flags.workloads.empty()) return read_workloads(flags.workloads);
  if (device.is_cpu()) return read_workloads({"one_tensor", "small_tensors"});
  std::vector<Workload> all = read_workloads({"one_tensor", "small_tensors", "gpt2", "resnet50"});
  all.push_back({"one tensor of 256M elements", {{1 << 28}}});
  return all;
}

// The implementations for one dtype: the baseline, torch's loop, torch's fused kernel, then jitstep's optimizers.
std::vector<Json> descriptions(const torch::Device& device, torch::Dtype dtype) {
  Json baseline = {{"kind", "copy"}};
  if (device.is_cpu())
    baseline = {{"kind", "baseline"}, {"state", dtype_name(dtype)}, {"arrays", 2}};
  std::vector<Json> all = {baseline, {{"kind", "torch loop"}}, {{"kind", "torch fused"}}};
  const auto add = [&](const std::string& name, Json spec) {
    spec["min_quantized_size"] = 0;
    all.push_back({{"kind", "jitstep"}, {"name", "jitstep " + name}, {"spec", spec}});
  };
  if (dtype == torch::kFloat) {
    for (const char* codec : {"fp32", "bf16", "int8", "int4"})
      add(std::string("AdamW ") + codec, {{"rule", "adamw"}, {"state", codec}});
    add("LAMB fp32", {{"rule", "lamb"}});
  } else {
    for (const char* weights : {"native", "stochastic"})
      add(std::string("AdamW ") + weights,
          {{"rule", "adamw"}, {"state", "bf16"}, {"weights", weights}});
  }
  return all;
}

Json print_rows(const std::vector<Implementation>& all, const Tensors& parameters,
                double elements) {
  const Implementation& baseline = all.at(0);
  const double baseline_rate = bytes_of_step(baseline, parameters) / baseline.median();
  const double loop = all.at(1).median(), fused = all.at(2).median();
  std::printf("%-24s %10s %10s %8s %9s %9s %9s\n", "", "ms/step", "Mparam/s", "GB/s", "of bound",
              "vs loop", "vs fused");
  Json rows = Json::array();
  for (const Implementation& one : all) {
    const double time = one.median(), bytes = bytes_of_step(one, parameters), rate = bytes / time;
    std::printf("%-24s %10.4f %10.1f %8.1f %8.0f%% %8.2fx %8.2fx\n", one.name.c_str(), 1e3 * time,
                elements / time / 1e6, rate / 1e9, 100 * rate / baseline_rate, loop / time,
                fused / time);
    rows.push_back({{"name", one.name},
                    {"seconds", time},
                    {"bytes", bytes},
                    {"parameters_per_second", elements / time},
                    {"fraction_of_bound", rate / baseline_rate},
                    {"times_as_fast_as_fused", fused / time}});
  }
  return rows;
}

Json compare(const Workload& workload, torch::Dtype dtype, const torch::Device& device,
             const Flags& flags) {
  const Tensors parameters = make_parameters(workload.shapes, dtype, device);
  std::vector<Implementation> all;
  for (const Json& description : descriptions(device, dtype))
    all.push_back(make_implementation(description, parameters));
  const int repeats = device.is_cpu() ? 1 : 10;
  for (int round = -2; round < flags.rounds; ++round)
    for (Implementation& one : all) {
      const double time = seconds(device, repeats, one.step) / repeats;
      if (round >= 0) one.seconds.push_back(time);
    }
  const std::string name = dtype_name(dtype);
  std::printf("\n%s, %s\n", workload.title.c_str(), name.c_str());
  const Json rows = print_rows(all, parameters, static_cast<double>(workload.elements()));
  return {{"workload", workload.title},
          {"dtype", name},
          {"elements", workload.elements()},
          {"rows", rows}};
}

// Host time of a step, with empty parameters, so that the device has nothing to do.
double host_cost(int count, const torch::Device& device) {
  const std::vector<std::vector<std::int64_t>> empty(static_cast<std::size_t>(count), {0});
  AdamW optimizer(make_parameters(empty, torch::kFloat, device), AdamWOptions(1e-3));
  Implementation steps{"", [&] { optimizer.step(); }};
  for (int round = -5; round < 200; ++round) {
    const double time = host_seconds(1, steps.step);
    if (round >= 0) steps.seconds.push_back(time);
  }
  return steps.median();
}

Json run(const Flags& flags) {
  const torch::Device device(flags.device);
  if (flags.threads > 0) torch::set_num_threads(flags.threads);
  std::printf("device %s, torch %s, threads %d\n", flags.device.c_str(), TORCH_VERSION,
              torch::get_num_threads());
  Json result = {{"device", flags.device},
                 {"torch", TORCH_VERSION},
                 {"threads", torch::get_num_threads()},
                 {"comparisons", Json::array()}};
  for (const Workload& workload : wanted_workloads(device, flags))
    for (const torch::Dtype dtype : {torch::kFloat, torch::kBFloat16})
      result["comparisons"].push_back(compare(workload, dtype, device, flags));
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
  CLI::App app("Compares the time of optimizer steps with torch's.");
  app.add_option("--device", flags.device, "cpu or cuda (default: cpu)");
  app.add_option("--threads", flags.threads, "Number of CPU threads (default: torch's default)");
  app.add_option("--rounds", flags.rounds, "Number of paired rounds (default: 11)")
      ->check(CLI::Range(1, 999));
  app.add_option("--workload", flags.workloads,
                 "Name in bench/shapes.json (default: several, more on a GPU)");
  app.add_option("--json", flags.json, "Also write the numbers to this file");
  app.add_option(
      "--kernels", flags.kernels,
      "Only compile the kernels for this target, such as sm_90, and print their resources");
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
