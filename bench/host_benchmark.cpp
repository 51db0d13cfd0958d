// What steps cost beside the work of their kernels: the host's time of a step, many small tensors, sets of
// gradients that change, the first step of a process. Pairs are timed in turn, by one thread; medians are shown.
#include <torch/utils.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "jitstep/jit/engine.h"
#include "jitstep/jitstep.h"
#include "stopwatch.h"

namespace jitstep::bench {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::vector<torch::Tensor>;

constexpr std::size_t kTensors = 700;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Pair {
  double first, second;  // seconds
};

// Medians of the time of two actions, after what makes ready for them.
Pair compare(int rounds, const std::function<void()>& first, const std::function<void()>& second,
             const std::function<void(int)>& make_ready = {}) {
  std::vector<double> ones, others;
  for (int round = -5; round < rounds; ++round) {
    if (make_ready) make_ready(round & 1);
    const Pair times{host_seconds(1, first), host_seconds(1, second)};
    if (round < 0) continue;
    ones.push_back(times.first);
    others.push_back(times.second);
  }
  return {median(ones), median(others)};
}

AdamW adamw(const Tensors& parameters) { return AdamW(parameters, AdamWOptions(1e-3)); }

// Parameters with gradients.
Tensors tensors(std::size_t count, std::int64_t size) {
  Tensors parameters;
  for (std::size_t i = 0; i < count; ++i) {
    parameters.push_back(torch::randn({size}).requires_grad_());
    parameters.back().mutable_grad() = torch::randn({size});
  }
  return parameters;
}

// Looks at every gradient and where it lies, as the least that a step must do.
std::uintptr_t walk(const Tensors& parameters) {
  std::uintptr_t sum = 0;
  for (const torch::Tensor& p : parameters)
    sum += reinterpret_cast<std::uintptr_t>(p.grad().const_data_ptr());
  return sum;
}

// Of empty parameters, so that kernels have nothing to do.
Json host_cost(int rounds) {
  const Tensors parameters = tensors(kTensors, 0);
  AdamW optimizer = adamw(parameters);
  volatile std::uintptr_t seen = 0;
  const auto [step, bare] = compare(
      rounds, [&] { optimizer.step(); }, [&] { seen = walk(parameters); });
  std::printf(
      "step of %zu empty parameters: %.1f us (aim: 10 us and two walks over their gradients, %.1f "
      "us)\n",
      kTensors, 1e6 * step, 10 + 2e6 * bare);
  return {{"step_seconds", step}, {"walk_seconds", bare}};
}

Json many_against_one(int rounds) {
  AdamW many = adamw(tensors(kTensors, 1000)), one = adamw(tensors(1, 1000 * kTensors));
  const auto [small, large] = compare(
      rounds, [&] { many.step(); }, [&] { one.step(); });
  std::printf("%zu tensors of 1000 elements against one of as many: %.2f times (aim: 1.2)\n",
              kTensors, small / large);
  return {{"many_seconds", small}, {"one_seconds", large}};
}

// The halves of the parameters have gradients in turn: of one optimizer, whose set of gradients changes in each step, and
// of two, whose sets stay. Both walk over the same memory.
Json changing_set(int rounds) {
  const Tensors changing = tensors(kTensors, 1000);
  Tensors gradients;
  for (const torch::Tensor& p : changing) gradients.push_back(p.grad());
  AdamW one = adamw(changing);
  AdamW buffers[] = {adamw(tensors(kTensors / 2, 1000)), adamw(tensors(kTensors / 2, 1000))};
  int half = 0;
  const auto [turns, stays] = compare(
      rounds, [&] { one.step(); }, [&] { buffers[half].step(); },
      [&](int next) {
        half = next;
        for (std::size_t i = 0; i < kTensors; ++i)
          changing[i].mutable_grad() =
              static_cast<int>(i & 1) == half ? gradients[i] : torch::Tensor();
      });
  std::printf(
      "gradients of another half in each step against halves that stay: %.2f times (aim: 1.3)\n",
      turns / stays);
  return {{"changing_seconds", turns}, {"same_seconds", stays}};
}

// The first step of a model in this process, less the second: with one kernel for each dtype and codec.
int print_first_step() {
  Tensors parameters;
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kBFloat16})
    for (const std::int64_t size : {5000, 100}) {
      parameters.push_back(torch::randn({size}, dtype).requires_grad_());
      parameters.back().mutable_grad() = torch::ones({size}, dtype);
    }
  AdamW optimizer(parameters, AdamWOptions(1e-3).state("int8"));
  const auto step = [&] { optimizer.step(); };
  const double first = host_seconds(1, step), second = host_seconds(1, step);
  const jit::Statistics done = jit::default_engine().statistics();
  std::cout << first - second << " " << done.compiled << " " << done.from_disk << "\n";
  return 0;
}

struct Start {
  double seconds = 0;
  int compiled = 0, from_disk = 0;
};

Start first_step_of_a_process(const std::string& cache) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "JITSTEP_CACHE_DIR='" + cache + "' '" + self + "' --first-step";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  Start start;
  if (!pipe ||
      std::fscanf(pipe.get(), "%lf %d %d", &start.seconds, &start.compiled, &start.from_disk) != 3)
    throw std::runtime_error("cannot run " + command);
  return start;
}

Json starts() {
  std::string cache = std::filesystem::temp_directory_path() / "jitstep_bench_XXXXXX";
  if (mkdtemp(cache.data()) == nullptr) throw std::runtime_error("no temporary folder " + cache);
  const Start cold = first_step_of_a_process(cache);
  std::vector<double> warm;
  for (int i = 0; i < 9; ++i) warm.push_back(first_step_of_a_process(cache).seconds);
  std::filesystem::remove_all(cache);
  std::printf(
      "first step of a process: %.0f ms with %d kernels to compile (aim: 500 each, side by side), "
      "%.1f ms from the cache (aim: 5)\n",
      1e3 * cold.seconds, cold.compiled, 1e3 * median(warm));
  return {
      {"cold_seconds", cold.seconds}, {"kernels", cold.compiled}, {"warm_seconds", median(warm)}};
}

}  // namespace
}  // namespace jitstep::bench

int main(int argc, char** argv) {
  using namespace jitstep::bench;
  int rounds = 200;
  bool first_step = false;
  std::string json;
  CLI::App app("Times what steps on the CPU cost beside the work of their kernels.");
  app.add_option("--rounds", rounds, "paired rounds (default 200)")->check(CLI::Range(1, 99999));
  app.add_option("--json", json, "write the numbers to this file too");
  app.add_flag("--first-step", first_step,
               "print seconds of a first step, kernels compiled, found");
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  try {
    if (first_step) return print_first_step();
    const Json result = {{"host_cost", host_cost(rounds)},
                         {"many_against_one", many_against_one(rounds)},
                         {"changing_set", changing_set(rounds)},
                         {"starts", starts()}};
    if (!json.empty() && !(std::ofstream(json) << result.dump(2) << "\n"))
      throw std::runtime_error("cannot write " + json);
  } catch (const std::exception& error) {
    std::cerr << "host_benchmark: " << error.what() << "\n";
    return 1;
  }
}
