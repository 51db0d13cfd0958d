// Time of one optimizer step on the CPU, side by side with torch's in the same run: rounds are paired,
// medians are compared. Usage: step_benchmark [threads]
#include <jitstep/jitstep.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<torch::Tensor>;

struct Contender {
  std::string name;
  std::function<void()> step;
  std::vector<double> seconds = {};
  double median() {
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    return seconds[seconds.size() / 2];
  }
};

double time_of(const std::function<void()>& action) {
  const auto start = Clock::now();
  action();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Tensors make_parameters(int count, std::int64_t size) {
  Tensors parameters;
  for (int i = 0; i < count; ++i) {
    parameters.push_back(torch::randn({size}).requires_grad_());
    parameters.back().mutable_grad() = torch::randn({size}) * 1e-2;
  }
  return parameters;
}

// Owns an optimizer and its parameters.
template <class Optimizer, class Options>
Contender contender(const std::string& name, int count, std::int64_t size, const Options& options) {
  auto optimizer = std::make_shared<Optimizer>(make_parameters(count, size), options);
  return {name, [optimizer] { optimizer->step(); }};
}

// torch's fused kernel, which only Python's AdamW(fused=True) calls.
Contender fused(int count, std::int64_t size) {
  struct State {
    Tensors p, g, m, v, t;
  };
  auto s = std::make_shared<State>();
  s->p = make_parameters(count, size);
  for (auto& p : s->p) {
    s->g.push_back(p.grad());
    p = p.detach();
    s->m.push_back(torch::zeros_like(p));
    s->v.push_back(torch::zeros_like(p));
    s->t.push_back(torch::zeros({}));
  }
  return {"torch fused AdamW", [s] {
            torch::_foreach_add_(s->t, 1);
            at::_fused_adamw_(s->p, s->g, s->m, s->v, {}, s->t, 1e-3, 0.9, 0.999, 1e-2, 1e-8, false,
                              false);
          }};
}

// The floor: bytes read and written per second by a copy of the same size, in the same run.
double copy_bandwidth(std::int64_t bytes) {
  const auto from = torch::ones({bytes / 4});
  auto to = torch::empty_like(from);
  double best = 1e9;
  for (int round = 0; round < 7; ++round) best = std::min(best, time_of([&] { to.copy_(from); }));
  return 2.0 * static_cast<double>(bytes) / best;
}

void compare(const char* what, int count, std::int64_t size, int rounds) {
  using jitstep::AdamWOptions;
  std::vector<Contender> all;
  all.push_back(contender<torch::optim::AdamW>("torch::optim::AdamW", count, size,
                                               torch::optim::AdamWOptions(1e-3)));
  all.push_back(fused(count, size));
  for (const char* codec : {"fp32", "bf16", "int8", "int4"})
    all.push_back(contender<jitstep::AdamW>(std::string("jitstep AdamW ") + codec, count, size,
                                            AdamWOptions(1e-3).state(codec).min_quantized_size(0)));
  all.push_back(
      contender<jitstep::LAMB>("jitstep LAMB fp32", count, size, jitstep::LAMBOptions(1e-3)));
  for (int round = -2; round < rounds; ++round)
    for (auto& one : all) {
      const double seconds = time_of(one.step);
      if (round >= 0) one.seconds.push_back(seconds);
    }
  const double elements = static_cast<double>(count) * static_cast<double>(size);
  const double loop = all[0].median(), peer = all[1].median();
  std::printf("\n%s\n%-22s %10s %10s %10s %10s\n", what, "", "ms/step", "Mparam/s", "vs loop",
              "vs fused");
  for (auto& one : all)
    std::printf("%-22s %10.3f %10.1f %9.2fx %9.2fx\n", one.name.c_str(), 1e3 * one.median(),
                elements / one.median() / 1e6, loop / one.median(), peer / one.median());
}

// What a step costs beside the kernel: empty parameters, against a bare walk over their gradients.
void host_cost() {
  constexpr int kCount = 700;
  const Tensors parameters = make_parameters(kCount, 0);
  jitstep::AdamW optimizer(parameters, jitstep::AdamWOptions(1e-3));
  std::vector<double> steps, walks;
  std::size_t defined = 0;
  for (int round = 0; round < 200; ++round) {
    steps.push_back(time_of([&] { optimizer.step(); }));
    walks.push_back(time_of([&] {
      for (const auto& p : parameters) defined += p.grad().defined();
    }));
  }
  std::nth_element(steps.begin(), steps.begin() + 100, steps.end());
  std::nth_element(walks.begin(), walks.begin() + 100, walks.end());
  std::printf(
      "\nhost cost of a step of %d parameters: %.1f us; a bare walk of their gradients: %.1f us"
      " (%zu)\n",
      kCount, 1e6 * steps[100], 1e6 * walks[100], defined / 200);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) torch::set_num_threads(std::stoi(argv[1]));
  std::printf("threads %d, copy bandwidth %.1f GB/s\n", torch::get_num_threads(),
              copy_bandwidth(256 << 20) / 1e9);
  compare("one tensor of 16M elements", 1, 16 << 20, 11);
  compare("700 tensors of 1000 elements", 700, 1000, 51);
  host_cost();
}
