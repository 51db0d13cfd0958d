#include "rank_plan.h"

#include <jit/base/integers.h>
#include <jit/base/text.h>
#include <jit/step/partition.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/spec.h>

#include <algorithm>
#include <cmath>

namespace jitstep::tool::memory {
namespace {

using namespace jitstep::jit;

std::vector<PartitionedTensor> tensors_of(const Plan& kernel, std::int64_t parameters) {
  constexpr std::int64_t kMatrix = 1 << 20, kMost = 4096;
  const std::int64_t each = std::max(kMatrix, ceil_div(parameters, kMost));
  std::vector<PartitionedTensor> tensors;
  for (std::int64_t left = parameters; left > 0; left -= each)
    tensors.push_back({std::min(left, each), part_grain(kernel)});
  return tensors;
}

// Numbers in the partial sums of one part of kPartElements elements, over all passes.
std::int64_t terms_of(const Plan& kernel) {
  std::int64_t terms = 0;
  for (const ResolvedReduction& r : kernel.reductions)
    if (r.active() && r.reduction_layout == 0) terms += r.terms;
  return terms;
}

}  // namespace

RankPlan rank_plan(const Plan& kernel, std::int64_t parameters, int ranks,
                   double state_per_parameter, std::int64_t aux_state) {
  constexpr int kMostRanks = 65536;
  if (ranks < 1 || ranks > kMostRanks)
    throw Error(
        str_cat("--ranks: ", ranks, " is not a number of ranks. Give 1 to ", kMostRanks, "."));
  const Partition partition(tensors_of(kernel, parameters), ranks);
  RankPlan plan{
      .ranks = ranks, .is_cut = part_grain(kernel) > 0, .imbalance = partition.imbalance()};
  for (int rank = 0; rank < ranks; ++rank)
    plan.elements = std::max(plan.elements, partition.elements(rank));
  const double share = static_cast<double>(plan.elements) / static_cast<double>(parameters);
  plan.state = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(plan.elements) * state_per_parameter +
                static_cast<double>(aux_state) * (plan.is_cut ? 1 : share)));
  const std::int64_t others = parameters - parameters / ranks;
  plan.parameters = others * bytes_of(kernel.spec.state.dtype);
  plan.sums = ceil_div(others, kPartElements) * terms_of(kernel) * 8;
  if (!kernel.rule().transforms.empty())
    plan.transformed = 2 * (others / ranks) * real_bytes(kernel.spec.state.dtype);
  return plan;
}

}  // namespace jitstep::tool::memory
