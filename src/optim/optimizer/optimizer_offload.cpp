// Optimizers whose state is in host memory.
#include <torch/types.h>

#include "jitstep/jit/plan.h"
#include "optim/optimizer/offload.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {

void Optimizer::offload(const OffloadOptions& options) { impl_->start_offload(options); }

bool Optimizer::is_offloaded() const { return impl_->offload != nullptr; }

bool Optimizer::copies_in_backward() const {
  return impl_->offload && impl_->offload->in_backward();
}

void Optimizer::zero_grad(bool set_to_none) {
  if (impl_->offload) impl_->offload->drop_gradients();
  torch::optim::Optimizer::zero_grad(set_to_none);
}

void Optimizer::Impl::start_offload(const OffloadOptions& options) {
  const OwnOperations own;
  TORCH_CHECK(
      !sharding,
      "jitstep: offload() does not work with shard(). Make a new optimizer, and call one of ",
      "the two.");
  if (!groups_unchanged()) sync_groups();
  const bool is_first = !offload;
  const auto running = is_first ? std::make_shared<Offload>(*this) : offload;
  running->invalidate_copies();
  running->refresh();
  running->copy_in_backward(options.in_backward());
  offload = running;
  if (is_first) move_states_to_host();
}

// If the state of a parameter cannot move now, the parameter's next step throws the same error.
void Optimizer::Impl::move_states_to_host() {
  for (std::size_t g = 0; g < groups.size(); ++g) refresh_options(g);
  stepper = Stepper();  // its tables have the addresses of state on the GPU
  tuning_is_settled = false;
  for (Group& group : groups)
    for (ParamRecord& record : group.param_records) {
      record.alone.reset();
      record.group_revision = -1;
    }
  for (Group& group : groups)
    for (ParamRecord& record : group.param_records)
      if (!record.repeated && record.host != nullptr)
        bind_stored_state(record, record.host->parameter);
}

// From here on, a step sees tensors in host memory only.
void Optimizer::Impl::use_host_copies() {
  if (offload) offload->fetch();
}

void Optimizer::Impl::return_parameters() {
  if (offload) offload->send();
}

StepExtras Optimizer::Impl::extras_of_step() const {
  if (offload) return offload->extras();
  StepExtras result = extras;
  if (sharding) result.clears = false;  // clear_gradients() clears whole gradients
  return result;
}

}  // namespace jitstep
