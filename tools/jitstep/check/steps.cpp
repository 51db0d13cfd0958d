#include "steps.h"

#include <jit/base/text.h>
#include <jitstep/jit/kernel_config.h>

#include <algorithm>

namespace jitstep::tool::check {
namespace {

using namespace jitstep::jit;
using namespace jitstep::emulation;

// One of two compared runs. `where` describes it in messages: "on the CPU".
struct Side {
  StepRun run;
  std::string where;
};

// "tensor 3 (7 x 131)". The number is the index in the case.
std::string tensor_text(const StepCase& c, int tensor) {
  if (tensor == StoredBuffer::kNoTensor) return "all tensors together";
  const auto& sizes = c.tensors[static_cast<std::size_t>(tensor)].sizes;
  return str_cat("tensor ", tensor, " (", joined(sizes, " x ", [](auto n) { return str_cat(n); }),
                 ")");
}

std::string sentence(const Difference& found, const StepCase& c, int step, const Side& one,
                     const Side& other) {
  return str_cat("after step ", step, ", ", found.name, "[", found.element, "] of ",
                 tensor_text(c, found.tensor), " is ", found.one, " ", one.where, " and ",
                 found.other, " ", other.where);
}

// An outcome notices writes outside of a tensor's memory.
StepOutcome outcome_after(int step, const Side& side) {
  try {
    return side.run.outcome();
  } catch (const Error& error) {
    throw Error(str_cat("after step ", step, " ", side.where, ", ", error.what()));
  }
}

std::string first_difference(const StepCase& c, Side one, Side other) {
  for (int step = 1; one.run.step() && other.run.step(); ++step) {
    const auto found = differences(outcome_after(step, one), outcome_after(step, other));
    if (!found.empty()) return sentence(found[0], c, step, one, other);
  }
  return "";
}

// Compares the candidate's steps, then the same steps with special values in the gradients. Returns the first
// difference.
template <class Compare>
std::string of_both_gradients(const Candidate& candidate, const Compare& compare) {
  for (const bool special : {false, true}) {
    StepCase steps = candidate.steps;
    steps.special_values = special;
    const std::string found = compare(steps);
    if (!found.empty())
      return found +
             (special ? ", with NaN, infinities and subnormal numbers in the gradients" : "");
  }
  return "";
}

StepRun on_the_cpu(const StepCase& c, Backend& cpu, const Catalog& catalog) {
  const KernelConfig config = default_kernel_config(kernel_of(c, catalog), Target::cpu());
  return {c, cpu, config, Grouping::kTogether, catalog};
}

}  // namespace

std::vector<Way> ways(const Plan& plan) {
  const KernelConfig default_config = default_kernel_config(plan, Target::emulated());
  const KernelConfig other = {64, 16, std::max(default_config.vector_elems / 2, 1),
                              2 * default_config.leaves_per_item};
  return {{"with the GPU's default configuration", default_config, Grouping::kTogether, 4,
           BlockOrder::kForward, LaneOrder::kForward},
          {"with another configuration", other, Grouping::kHalves, 7, BlockOrder::kShuffled,
           LaneOrder::kRandom}};
}

std::string difference_under_emulation(const Candidate& candidate, Workbench& plain) {
  const auto compare = [&](const StepCase& c, const Way& way) {
    CpuBackend cpu(plain.engine);
    EmulatedBackend gpu(plain.engine, way.blocks, way.order, way.lanes);
    return first_difference(
        c, {on_the_cpu(c, cpu, plain.catalog), "on the CPU"},
        {{c, gpu, way.config, way.grouping, plain.catalog}, "in the emulation " + way.name});
  };
  for (const Way& way : ways(kernel_of(candidate.steps, plain.catalog))) {
    const std::string found =
        of_both_gradients(candidate, [&](const StepCase& c) { return compare(c, way); });
    if (!found.empty()) return found;
  }
  return "";
}

std::string difference_of_poison(const Candidate& candidate, Workbenches& benches) {
  return of_both_gradients(candidate, [&](const StepCase& c) {
    CpuBackend cpu(benches.plain.engine), poisoned(benches.poisoned.engine);
    return first_difference(
        c, {on_the_cpu(c, cpu, benches.plain.catalog), "normally"},
        {on_the_cpu(c, poisoned, benches.poisoned.catalog), "with poisoned unset values"});
  });
}

}  // namespace jitstep::tool::check
