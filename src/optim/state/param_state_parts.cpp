// The state of a part of a parameter, if several ranks share the state of an optimizer.
#include <torch/types.h>

#include <utility>

#include "jit/step/partition.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "optim/state/param_state_data.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

torch::Tensor range_of(const torch::Tensor& values, std::int64_t first, std::int64_t count) {
  return storage_range(values, first, count).clone();
}

StateBuffers::Slot part_of_slot(const StateBuffers& whole, std::size_t slot,
                                const jit::Part& part) {
  const auto& [codes, meta] = whole.slots[slot];
  if (!codes.defined()) return {};
  const auto layout_to = [&](std::int64_t elements) {
    return jit::slot_layout(*whole.plan, static_cast<int>(slot), elements);
  };
  const auto before = layout_to(part.first), own = layout_to(part.count());
  if (own.values) return {range_of(codes, part.first, part.count()), {}};
  return {range_of(codes, before.codes, own.codes),
          own.meta > 0 ? range_of(meta, before.meta, own.meta) : torch::Tensor()};
}

}  // namespace

StateBuffers part_of_state(const StateBuffers& whole, const torch::Tensor& p,
                           const jit::Part& part) {
  StateBuffers result = whole;
  result.first = part.first;
  result.whole = p.numel();
  result.revision = next_revision();
  if (part.count() == p.numel()) return result;
  for (std::size_t i = 0; i < result.slots.size(); ++i)
    result.slots[i] = part_of_slot(whole, i, part);
  if (jit::part_grain(*whole.plan) > 0) {  // all parts have the same values per tensor
    for (auto& [key, buffers] : result.aux_state)
      for (torch::Tensor& half : buffers) half = half.clone();  // none is a matrix
  } else {
    result.aux_state = make_aux_state(torch::empty({0}, p.options()), *whole.plan,
                                      std::vector<double>(whole.plan->aux_state.size()));
  }
  const std::int64_t residual = whole.plan->weights->residual_bytes();
  if (whole.residual.defined())
    result.residual = range_of(whole.residual, part.first * residual, part.count() * residual);
  return result;
}

void ParamState::Data::reduce_to_part(const torch::Tensor& p, const jit::Part& part) {
  buffers = part_of_state(buffers, p, part);
  if (part.count() == p.numel()) return;
  layout = {{part.count()}, {1}, p.scalar_type(), p.device()};
  owner = {};
}

}  // namespace jitstep
