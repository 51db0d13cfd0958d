#include "optim/shard/state_gather.h"

#include <vector>

#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "optim/shard/part_exchange.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

torch::Tensor flat_bytes(const torch::Tensor& tensor, const torch::Tensor& p) {
  if (!tensor.defined()) return torch::empty({0}, p.options().dtype(torch::kUInt8));
  return storage_range(tensor, 0, tensor.numel()).view(torch::kUInt8);
}

// Gathers the buffers of one parameter, all of them in the same order on all ranks.
class Gathering {
 public:
  Gathering(RankGroup& group, const jit::Partition& partition, std::size_t index,
            const torch::Tensor& p)
      : group_(group), partition_(partition), index_(index), p_(p) {}

  bool has_part() const { return partition_.part(group_.rank(), index_).count() > 0; }

  // `bytes_of`: the bytes of a part with so many elements.
  template <class BytesOf>
  torch::Tensor bytes(const torch::Tensor& mine, const BytesOf& bytes_of) {
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < group_.size(); ++rank)
      counts.push_back(bytes_of(partition_.part(rank, index_).count()));
    return gather_bytes(group_, flat_bytes(mine, p_), counts);
  }

  // Plain values in the parameter's storage order.
  torch::Tensor values(const torch::Tensor& bytes, torch::ScalarType dtype) const {
    return bytes.defined() ? in_storage_order(bytes.view(dtype), p_) : bytes;
  }

 private:
  RankGroup& group_;
  const jit::Partition& partition_;
  std::size_t index_;
  const torch::Tensor& p_;
};

void gather_slot(Gathering& gathering, const StateBuffers& part, std::size_t slot,
                 const torch::Tensor& p, StateBuffers& whole) {
  const jit::Plan& plan = *part.plan;
  const int number = static_cast<int>(slot);
  if (plan.codec(number) == nullptr) return;
  const auto& [codes, meta] = part.slots[slot];
  const auto layout = jit::slot_layout(plan, number, p.numel());
  torch::Tensor all = gathering.bytes(
      codes, [&](std::int64_t n) { return jit::slot_layout(plan, number, n).codes; });
  if (layout.values) all = gathering.values(all, real_dtype(plan.spec.state.dtype));
  whole.slots[slot].codes = all;
  if (layout.meta > 0)
    whole.slots[slot].meta = gathering.bytes(
        meta, [&](std::int64_t n) { return jit::slot_layout(plan, number, n).meta; });
}

// The rank with a tensor that cannot be cut has its auxiliary state. All ranks have that of other tensors.
void gather_aux_state(Gathering& gathering, const StateBuffers& part, const torch::Tensor& p,
                      const std::vector<double>& initial_aux_state, StateBuffers& whole) {
  const jit::Plan& plan = *part.plan;
  whole.aux_state = part.aux_state;
  if (jit::part_grain(plan) > 0) return;
  const auto layout = jit::state_layout(plan, shape_of(p), initial_aux_state);
  for (std::size_t i = 0; i < whole.aux_state.size(); ++i) {
    const auto& field = layout.aux_state[i];
    auto& halves = whole.aux_state[i].buffers;
    const bool is_matrix = plan.aux_state[i].matrix.has_value();
    for (torch::Tensor& half : whole.aux_state[i].buffers) {
      const torch::Tensor bytes =
          gathering.bytes(gathering.has_part() ? half : torch::Tensor(),
                          [&](std::int64_t n) { return n == 0 ? 0 : field.entries * field.bytes; });
      half = bytes.defined() ? bytes.view(half.scalar_type()) : torch::Tensor();
      if (is_matrix) break;
    }
    if (is_matrix) halves[1] = halves[0];
  }
}

}  // namespace

StateBuffers gather_state(RankGroup& group, const jit::Partition& partition, std::size_t index,
                          const StateBuffers& part, const torch::Tensor& p,
                          const std::vector<double>& initial_aux_state) {
  StateBuffers whole = part;
  whole.first = whole.whole = 0;
  if (p.numel() == 0) return whole;
  Gathering gathering(group, partition, index, p);
  for (std::size_t i = 0; i < whole.slots.size(); ++i) gather_slot(gathering, part, i, p, whole);
  gather_aux_state(gathering, part, p, initial_aux_state, whole);
  if (const std::int64_t width = part.plan->weights->residual_bytes(); width > 0)
    whole.residual = gathering.bytes(part.residual, [&](std::int64_t n) { return n * width; });
  return whole;
}

}  // namespace jitstep
