// The optimizer's steps. What a step changes before its first launch is taken back if it fails.
#include <torch/torch.h>

#include "optim/optimizer/optimizer_records.h"
#include "optim/tensor/machines.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {

torch::Tensor Optimizer::step(LossClosure closure) {
  torch::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure != nullptr) {
    at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  collect();
  try {
    attend();
    records_->stepper.step(records_->work, records_->numbers);
  } catch (...) {
    restore_states();
    throw;
  }
  records_->waiting.clear();
  return loss;
}

// Finds the parameters with gradients and checks all of them before anything is changed.
void Optimizer::collect() {
  if (!is_known()) adopt();
  records_->work.clear();
  records_->waiting.clear();
  records_->new_gradients.clear();
  bool moved = records_->memory.empty();
  for (std::size_t g = 0; g < records_->groups.size(); ++g) moved |= collect_group(g);
  if (moved) check_memory();
  check_new_gradients();
}

// Looks anew at where parameters lie, and at every gradient.
void Optimizer::check_memory() {
  check_distinct(nullptr);
  records_->memory.clear();
  records_->new_gradients.clear();
  for (std::size_t g = 0; g < records_->groups.size(); ++g)
    for (std::size_t i = 0; i < records_->groups[g].members.size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      Member& member = records_->groups[g].members[i];
      member.memory = p.const_data_ptr();
      member.gradient = nullptr;
      records_->memory.add({&p, {g, i}});
      if (p.grad().defined()) records_->new_gradients.push_back({g, i});
    }
}

void Optimizer::check_new_gradients() {
  for (const ParameterName& name : records_->new_gradients) {
    const torch::Tensor& p = param_groups_[name.group].params()[name.place];
    records_->memory.check(p.grad(), {&p, name});
    records_->groups[name.group].members[name.place].gradient = p.grad().const_data_ptr();
  }
}

// Says whether a parameter lies elsewhere than when its group was last looked at.
bool Optimizer::collect_group(std::size_t g) {
  Records::Group& group = records_->groups[g];
  about_group(g, [&] { group.record.refresh(group_options(g), records_->numbers[g]); });
  const auto& params = param_groups_[g].params();
  bool moved = false;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const torch::Tensor& p = params[i];
    const torch::Tensor& grad = p.grad();
    if (!grad.defined()) continue;
    check_gradient(p, grad, {g, i});
    Member& member = group.members[i];
    const bool ready =
        about(p, {g, i}, [&] { return is_ready(member, p, group.record.revision()); });
    moved = moved || !ready || member.memory != p.const_data_ptr();
    if (member.gradient != grad.const_data_ptr()) records_->new_gradients.push_back({g, i});
    if (!ready) add_waiting(g, i);
    records_->work.push_back(
        {&p, &grad, member.state ? &member.state->buffers() : nullptr, static_cast<int>(g)});
  }
  return moved;
}

void Optimizer::add_waiting(std::size_t g, std::size_t i) {
  const torch::Tensor& p = param_groups_[g].params()[i];
  check_tensor(p, {g, i});
  const jit::KernelSpec spec = about(p, {g, i}, [&] { return records_->groups[g].record.spec(p); });
  records_->waiting.push_back({records_->work.size(), g, i, spec, false, std::nullopt});
}

bool Optimizer::is_ready(Member& member, const torch::Tensor& p, int revision) {
  const auto found = state_.find(member.key);
  auto* const held = found == state_.end() ? nullptr : found->second.get();
  const bool same = held == member.held;
  if (!same) {
    auto* const state = dynamic_cast<ParamState*>(held);
    TORCH_CHECK(
        held == nullptr || (state != nullptr && state->rule() == rule()),
        "the state of a parameter was replaced by another optimizer's; use the state class of ",
        rule());
    member.state = state;
    member.held = held;
  }
  if (held != nullptr) member.state->check_step();
  return same && held != nullptr && member.revision == revision && member.state->is_bound() &&
         member.state->fits(p);
}

ParamState& Optimizer::state_for(const torch::Tensor& p, const Options& options) {
  auto& held = state_[p.unsafeGetTensorImpl()];
  if (!held) held = options.make_state();
  return static_cast<ParamState&>(*held);
}

// Makes the state of parameters that get their first gradient, and binds again what was replaced,
// moved, or has other formats now.
void Optimizer::attend() {
  // First of all: a CUDA graph capture would record the making of state.
  for (const Records::Waiting& waiting : records_->waiting)
    machine_of(records_->work[waiting.work].p->device()).refuse_capture();
  for (Records::Waiting& waiting : records_->waiting) {
    Records::Group& group = records_->groups[waiting.group];
    Member& member = group.members[waiting.place];
    const torch::Tensor& p = *records_->work[waiting.work].p;
    if (member.held == nullptr)
      waiting.made = true;
    else
      waiting.before = *member.state;
    ParamState& state = state_for(p, group_options(waiting.group));
    about(p, {waiting.group, waiting.place}, [&] {
      const jit::KernelSpec& spec = waiting.spec;
      state.bind(p, spec, member.id, group.record.initial_memory(spec, member.id));
    });
    member.held = member.state = &state;
    member.revision = group.record.revision();
    records_->work[waiting.work].state = &state.buffers();
  }
}

// After a step that failed, such as for want of a compiler or of memory, every state is what it was
// before, and none is left that was not there.
void Optimizer::restore_states() {
  for (Records::Waiting& waiting : records_->waiting) {
    Member& member = records_->groups[waiting.group].members[waiting.place];
    if (waiting.made) {
      state_.erase(member.key);
      member.held = member.state = nullptr;
    } else if (waiting.before) {
      *member.state = std::move(*waiting.before);
    }
    member.revision = -1;
  }
  records_->waiting.clear();
}

void Optimizer::compile() {
  torch::NoGradGuard no_grad;
  if (!is_known()) adopt();
  std::vector<StateBuffers> states;
  std::vector<StepParameter> parameters;
  for (std::size_t g = 0; g < records_->groups.size(); ++g) {
    GroupRecord& record = records_->groups[g].record;
    about_group(g, [&] { record.refresh(group_options(g), records_->numbers[g]); });
    for (std::size_t i = 0; i < param_groups_[g].params().size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      about(p, {g, i}, [&] {
        const jit::KernelSpec spec = record.spec(p);
        states.push_back(make_state(p, spec, 0, record.initial_memory(spec, 0)));
      });
      parameters.push_back({&p, &p, nullptr, static_cast<int>(g)});
    }
  }
  for (std::size_t i = 0; i < states.size(); ++i) parameters[i].state = &states[i];
  Stepper().prepare(parameters);
}

}  // namespace jitstep
