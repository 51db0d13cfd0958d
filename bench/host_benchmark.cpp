// Measures the cost of steps in addition to the work of kernels: host time per step, many small tensors, changing sets
// of gradients, and the first step of a process. Uses one thread. Measures pairs alternately and prints medians.
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
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

struct Pair {
  double first, second;  // seconds
};

// Median times of two actions. Each round calls `make_ready` first.
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

// Reads the address of every gradient, which is the minimal host work of a step.
std::uintptr_t visit_gradients(const Tensors& parameters) {
  std::uintptr_t sum = 0;
  for (const torch::Tensor& p : parameters)
    sum += reinterpret_cast<std::uintptr_t>(p.grad().const_data_ptr());
  return sum;
}

// Uses empty parameters, so that kernels have nothing to do.
Json host_cost(int rounds) {
  const Tensors parameters = tensors(kTensors, 0);
  AdamW optimizer = adamw(parameters);
  volatile std::uintptr_t seen = 0;
  const auto [step, bare] = compare(
      rounds, [&] { optimizer.step(); }, [&] { seen = visit_gradients(parameters); });
  std::printf(
      "step of %zu empty parameters: %.1f us (target: 10 us and two loops over their gradients, "
      "%.1f us)\n",
      kTensors, 1e6 * step, 10 + 2e6 * bare);
  return {{"step_seconds", step}, {"visit_seconds", bare}};
}

Json many_against_one(int rounds) {
  AdamW many = adamw(tensors(kTensors, 1000)), one = adamw(tensors(1, 1000 * kTensors));
  const auto [small, large] = compare(
      rounds, [&] { many.step(); }, [&] { one.step(); });
  std::printf(
      "%zu tensors of 1000 elements, relative to one with as many: %.2f times (target: 1.2)\n",
      kTensors, small / large);
  return {{"many_seconds", small}, {"one_seconds", large}};
}

// Alternates between the two halves of the parameters. One optimizer has gradients for another half in each step. It is
// compared with two optimizers whose sets of gradients do not change. Both process the same amount of memory.
Json changing_set(int rounds) {
  const Tensors changing = tensors(kTensors, 1000);
  Tensors gradients;
  for (const torch::Tensor& p : changing) gradients.push_back(p.grad());
  AdamW one = adamw(changing);
  AdamW halves[] = {adamw(tensors(kTensors / 2, 1000)), adamw(tensors(kTensors / 2, 1000))};
  int half = 0;
  const auto [alternating, constant] = compare(
      rounds, [&] { one.step(); }, [&] { halves[half].step(); },
      [&](int next) {
        half = next;
        for (std::size_t i = 0; i < kTensors; ++i)
          changing[i].mutable_grad() =
              static_cast<int>(i & 1) == half ? gradients[i] : torch::Tensor();
      });
  std::printf(
      "gradients of another half in each step, relative to constant sets: %.2f times (target: "
      "1.3)\n",
      alternating / constant);
  return {{"changing_seconds", alternating}, {"same_seconds", constant}};
}

// bench/count_instructions.py counts the instructions of this function. The first call of `action` is not in it, because
// it costs more, and not the same in each process.
[[gnu::noinline]] void repeat(int count, const std::function<void()>& action) {
  for (int i = 0; i < count; ++i) action();
}

int take_steps(int count) {
  AdamW optimizer = adamw(tensors(kTensors, 0));
  optimizer.step();
  repeat(count, [&] { optimizer.step(); });
  return 0;
}

int make_optimizers(int count) {
  const Tensors parameters = tensors(10, 5);
  adamw(parameters);
  repeat(count, [&] { adamw(parameters); });
  return 0;
}

// Prints the time of the first step minus that of the second one, in this process. There is one kernel per dtype and
// codec.
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
  const std::string command =
      "JITSTEP_CACHE_READONLY= JITSTEP_CACHE_DIR='" + cache + "' '" + self + "' --first-step";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  Start start;
  if (!pipe ||
      std::fscanf(pipe.get(), "%lf %d %d", &start.seconds, &start.compiled, &start.from_disk) != 3)
    throw std::runtime_error("cannot run " + command);
  return start;
}

Json starts() {
  std::string cache = std::filesystem::temp_directory_path() / "jitstep_bench_XXXXXX";
  if (mkdtemp(cache.data()) == nullptr)
    throw std::runtime_error("cannot create the temporary folder " + cache);
  const Start cold = first_step_of_a_process(cache);
  std::vector<double> warm;
  for (int i = 0; i < 9; ++i) warm.push_back(first_step_of_a_process(cache).seconds);
  std::filesystem::remove_all(cache);
  std::printf(
      "first step of a process: %.0f ms with %d kernels to compile (target: 500 each, in "
      "parallel), %.1f ms from the cache (target: 5)\n",
      1e3 * cold.seconds, cold.compiled, 1e3 * median(warm));
  return {
      {"cold_seconds", cold.seconds}, {"kernels", cold.compiled}, {"warm_seconds", median(warm)}};
}

}  // namespace
}  // namespace jitstep::bench

int main(int argc, char** argv) {
  using namespace jitstep::bench;
  int rounds = 200, steps = 0, optimizers = 0;
  bool first_step = false;
  std::string json;
  CLI::App app("Measures the cost of steps on the CPU in addition to the work of kernels.");
  app.add_option("--rounds", rounds, "Number of paired rounds (default: 200)")
      ->check(CLI::Range(1, 99999));
  app.add_option("--json", json, "Also write the numbers to this file");
  app.add_flag("--first-step", first_step,
               "Print seconds of a first step, compiled kernels and cached kernels");
  app.add_option("--steps", steps, "Only take this many steps of empty parameters after one");
  app.add_option("--optimizers", optimizers,
                 "Only make this many optimizers of ten parameters after one");
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  try {
    if (steps > 0) return take_steps(steps);
    if (optimizers > 0) return make_optimizers(optimizers);
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
