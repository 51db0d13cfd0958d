// A rule's way down a bowl: whether its numbers make sense at all.
#include <jit/base/text.h>
#include <jitstep/jit/common_memory.h>
#include <jitstep/jit/state_memory.h>
#include <jitstep/jit/step.h>

#include <cmath>
#include <random>

#include "steps.h"

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using Floats = std::vector<float>;

constexpr int kSteps = 300;

std::vector<std::int64_t> sizes_of(int dims) {
  if (dims == 1) return {384};
  return dims == 2 ? std::vector<std::int64_t>{16, 24} : std::vector<std::int64_t>{4, 8, 12};
}

Floats random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  Floats numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

double height(const Floats& p, const Floats& goal) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += std::pow(double{p[i]} - double{goal[i]}, 2);
  return sum / 2 / static_cast<double>(p.size());
}

}  // namespace

std::string warning_of_bowl(const Candidate& candidate, Workbench& plain) {
  const emulation::StepCase& c = candidate.steps;
  if (c.spec.state.dtype != Dtype::float32) return "";
  const Plan plan = kernel_of(c, plain.catalog);
  const OptionValues options = options_of(c, plain.catalog);
  CpuMachine cpu(plain.engine);
  const StateMemory state(cpu, plan, options, sizes_of(c.dims));
  Floats p = random_numbers(384, 1), g(p.size());
  const Floats goal = random_numbers(p.size(), 2);
  CommonMemory common = make_common_memory(cpu, options);
  Step step(cpu, {{plan, {state.tensor(p.data())}}}, &common);
  const HostStage as_it_is = [](const auto&) {};  // the rule's, if it has one, is not known here
  const double first = height(p, goal);
  for (int t = 1; t <= kSteps; ++t) {
    for (std::size_t i = 0; i < p.size(); ++i) g[i] = p[i] - goal[i];
    step.run({{.g = g.data()}}, {plan.at_step(options, t)}, as_it_is);
    if (!std::isfinite(height(p, goal)))
      return text("on a bowl (the gradient is p less its goal) step ", t,
                  " makes a parameter infinite or NaN");
  }
  const double last = height(p, goal);
  if (!candidate.plain_options || last <= 2 * first) return "";
  return text("on a bowl (the gradient is p less its goal) ", kSteps, " steps lead upwards, from ",
              first, " to ", last);
}

}  // namespace jitstep::tool::check
