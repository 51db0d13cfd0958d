// Minimizes a quadratic function with a rule: a plausibility check of its formulas.
#include <jit/base/text.h>
#include <jitstep/jit/state_storage.h>
#include <jitstep/jit/step.h>

#include <algorithm>
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
  if (dims == 2) return {16, 24};
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(dims - 3), 1);
  sizes.insert(sizes.end(), {4, 8, 12});
  return sizes;
}

Floats random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  Floats numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

// Half the mean squared distance to the minimum. The gradient that the rule gets is p - goal.
double loss(const Floats& p, const Floats& goal) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += std::pow(double{p[i]} - double{goal[i]}, 2);
  return sum / 2 / static_cast<double>(p.size());
}

// Reports a negative value in a slot that is declared NonNegative, because codecs store no sign for it. Checks only
// slots in fp32, which holds the exact value.
std::string negative(const Plan& plan, const StepTensor& tensor, std::size_t count) {
  const std::vector<Slot>& slots = plan.rule().slots;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Manifest* const codec = plan.codec(static_cast<int>(i));
    if (slots[i].is_signed || codec == nullptr || codec->name != "fp32") continue;
    const auto* const values = static_cast<const float*>(tensor.slots[i].codes);
    const auto* const below = std::find_if(values, values + count, [](float x) { return x < 0; });
    if (below != values + count)
      return str_cat("`update_state` sets e.", slots[i].name, ".next to ", *below,
                     ", but the slot is declared NonNegative. Declare it Signed, or make it >= 0.");
  }
  return "";
}

// Steps of one rule on the quadratic function.
class QuadraticSteps {
 public:
  QuadraticSteps(const Candidate& candidate, Workbench& plain)
      : candidate_(candidate),
        plan_(kernel_of(candidate.steps, plain.catalog)),
        options_(options_of(candidate.steps, plain.catalog)),
        cpu_(plain.engine),
        state_(cpu_, plan_, options_, sizes_of(candidate.steps.dims)),
        tensor_(state_.tensor(p_.data())) {}

  Minimization run() {
    SharedState common = make_shared_state(cpu_, options_);
    Step step(cpu_, {{plan_, {tensor_}}}, &common);
    // The tool does not know the rule's host transform, so it uses the identity.
    const HostTransform identity = [](const auto&) {};
    const double first = loss(p_, goal_);
    for (int t = 1; t <= kSteps; ++t) {
      for (std::size_t i = 0; i < p_.size(); ++i) g_[i] = p_[i] - goal_[i];
      StepInput input{.g = g_.data()};
      // An input may be an estimate of the Hessian's diagonal, which is 1.
      for (std::size_t i = 0; i < plan_.rule().inputs.size(); ++i) input.inputs[i] = ones_.data();
      step.run({input}, {plan_.at_step(options_, t)}, identity);
      // First, because the root of a negative value makes the parameter NaN.
      if (std::string found = negative(plan_, tensor_, p_.size()); !found.empty())
        return {.problem = where_ + str_cat("step ", t, ": ") + found};
      if (!std::isfinite(loss(p_, goal_))) return {.warning = where_ + infinite(t)};
    }
    return {.warning = warning(first)};
  }

 private:
  static std::string infinite(int t) {
    return str_cat("step ", t, " makes a parameter infinite or NaN");
  }

  // Only for default options. Other options may maximize, or change nothing.
  std::string warning(double first) const {
    const double last = loss(p_, goal_);
    if (!candidate_.plain_options) return "";
    if (p_ == start_) return where_ + str_cat(kSteps, " steps change no parameter");
    if (last <= first) return "";
    return where_ + str_cat(kSteps, " steps increase it from ", first, " to ", last);
  }

  const std::string where_ = "on a quadratic function (gradient: p - minimum), ";
  const Candidate& candidate_;
  const Plan plan_;
  const OptionValues options_;
  CpuBackend cpu_;
  const Floats start_ = random_numbers(384, 1), goal_ = random_numbers(384, 2);
  const Floats ones_ = Floats(384, 1);
  Floats p_ = start_, g_ = start_;
  const StateStorage state_;
  const StepTensor tensor_;
};

}  // namespace

// The function has as many variables for all options, so it has none of the sizes that a rule may need.
Minimization minimize_quadratic(const Candidate& candidate, Workbench& plain) {
  if (candidate.steps.spec.state.dtype != Dtype::float32 || !candidate.steps.sizes.empty())
    return {};
  try {
    options_of(candidate.steps, plain.catalog).validate_for(sizes_of(candidate.steps.dims));
  } catch (const Error&) {
    return {};
  }
  return QuadraticSteps(candidate, plain).run();
}

}  // namespace jitstep::tool::check
