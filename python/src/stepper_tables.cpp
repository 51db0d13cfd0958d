// Stepper: from parameters to batches, tables and kernels.
#include <algorithm>
#include <string>

#include "backends.h"
#include "jitstep/jit/error.h"
#include "stepper.h"

namespace jitstep::python {
namespace {

bool same_kind(const jit::StepTensor& a, const jit::StepTensor& b) {
  return a.shape == b.shape && a.g_strides == b.g_strides;
}

}  // namespace

// The batch of a parameter's kernel. resolve() is slow, so a parameter like the last one has its batch.
std::size_t Stepper::batch_of(const Member& member, bool scaled) {
  const std::size_t at = static_cast<std::size_t>(&member - members_.data());
  for (std::size_t i = at; i-- > 0;) {
    const Member& other = members_[i];
    if (!other.plan || other.plan->plan != member.plan->plan || other.g_dtype != member.g_dtype ||
        !same_kind(other.tensor, member.tensor))
      continue;
    return other.batch;
  }
  jit::KernelSpec spec = member.plan->plan->spec;
  spec.gradient = member.g_dtype;
  spec.strided = is_strided(member.tensor);
  if (scaled) spec.gradient_flags["scaled"] = true;
  jit::Plan plan = jit::resolve(spec, *member.plan->plan->catalog);
  for (std::size_t b = 0; b < batches_.size(); ++b)
    if (batches_[b].plan.is_same_kernel(plan)) return b;
  batches_.push_back({std::move(plan), {}});
  return batches_.size() - 1;
}

// Tensors are numbered batch after batch.
void Stepper::number_tensors() {
  std::vector<std::size_t> first;
  std::size_t count = 0;
  for (const jit::Batch& batch : batches_) {
    first.push_back(count);
    count += batch.tensors.size();
  }
  inputs_.assign(count, {.inactive = true});
  member_of_.assign(count, 0);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (!member.plan) continue;
    member.index += first[member.batch];
    member_of_[member.index] = i;
  }
}

namespace {

// The range of addresses of a parameter without gaps.
struct Extent {
  const char *begin, *end;
  int number;
};

void check_disjoint(std::vector<Extent> extents) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      throw jit::Error("parameters " + std::to_string(extents[i - 1].number) + " and " +
                       std::to_string(extents[i].number) +
                       " share memory. Give the optimizer one of them.");
}

}  // namespace

void Stepper::make_shared_state() {
  const jit::OptionValues& values = groups_.front()->values();
  if (!shared_state_)
    shared_state_ =
        std::make_unique<jit::SharedState>(jit::make_shared_state(cpu_backend(), values));
  const auto held = shared_state_->buffers[1] - shared_state_->buffers[0];
  const std::size_t wanted = jit::initial_shared_state(values).size();
  if (static_cast<std::size_t>(held) != wanted)
    throw jit::Error("the checkpoint has " + std::to_string(held) + " of " +
                     std::to_string(wanted) + " numbers of shared state. Save it again.");
}

void Stepper::make_step() {
  std::vector<Extent> extents;
  bool shares = false;
  for (const jit::Batch& batch : batches_) {
    shares = shares || !batch.plan.shared_state.empty();
    for (const jit::StepTensor& tensor : batch.tensors) {
      const auto* const begin = static_cast<const char*>(tensor.p);
      const auto bytes = tensor.shape.elements() * jit::bytes_of(batch.plan.spec.state.dtype);
      if (!batch.plan.spec.strided && bytes > 0)
        extents.push_back({begin, begin + bytes, tensor.id});
    }
  }
  check_disjoint(std::move(extents));
  if (batches_.empty()) return;
  if (shares) make_shared_state();
  const nb::gil_scoped_release release;
  step_.emplace(cpu_backend(), batches_, shares ? shared_state_.get() : nullptr);
}

void Stepper::finish(nb::dict state, bool scaled) {
  scaled_ = scaled;
  for (Member& member : members_) {
    if (!member.plan) continue;
    member.batch = batch_of(member, scaled);
    jit::Batch& batch = batches_[member.batch];
    member.index = batch.tensors.size();
    batch.tensors.push_back(member.tensor);
  }
  number_tensors();
  make_step();
  watch_.remember(state);
  for (Member& member : members_)
    for (NewestView& view : member.newest) view.entry = &watch_.find(view.dict, view.key);
  ready_ = tables_are_new_ = true;
}

// Tables for parameters that have other memory, and are otherwise unchanged: as their formats and state are the same,
// this is a small part of a rebuild.
void Stepper::move_parameters() {
  std::size_t index = 0;
  for (jit::Batch& batch : batches_)
    for (jit::StepTensor& tensor : batch.tensors) tensor.p = members_[member_of_[index++]].tensor.p;
  ready_ = false;  // after an error
  make_step();
  ready_ = tables_are_new_ = true;
  moved_ = false;
}

}  // namespace jitstep::python
