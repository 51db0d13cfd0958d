// The optimizer's steps. What a step changes before its first launch is taken back if it fails.
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "jitstep/jit/plan.h"
#include "optim/optimizer/optimizer_records.h"
#include "optim/state/weight_conversion.h"
#include "optim/tensor/machines.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

using States = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;

torch::optim::OptimizerParamState* held_in(const States& states, void* key) {
  const auto found = states.find(key);
  return found == states.end() ? nullptr : found->second.get();
}

// Those of all states but some; one that was never bound has none.
std::set<int> ids_but_of(const std::set<const ParamState*>& some, const States& states) {
  std::set<int> ids;
  for (const auto& [key, held] : states) {
    const auto* const state = dynamic_cast<const ParamState*>(held.get());
    if (state != nullptr && state->has_id() && !some.contains(state)) ids.insert(state->id());
  }
  return ids;
}

}  // namespace

bool shares(const jit::Plan& plan) {
  return !plan.common.empty() ||
         std::any_of(plan.reductions.begin(), plan.reductions.end(),
                     [](const auto& r) { return r.everywhere && r.taken(); });
}

torch::Tensor Optimizer::step(LossClosure closure) {
  check_training();
  torch::Tensor loss;
  if (closure != nullptr) {
    at::AutoGradMode enable_grad(true);
    loss = closure();
    check_training();
  }
  const OwnOperations own;
  collect(Purpose::step);
  if (!std::exchange(records_->tuning_is_settled, true))
    records_->stepper.tune(make_step_tuner(records_->tunes, records_->agree));
  change([&] {
    check_cleared();
    count_steps();
    const StepExtras& extras = records_->extras;
    records_->stepper.step({records_->work, records_->resting, records_->numbers},
                           records_->common.memory(), extras, records_->stage());
  });
  clear_materialised();
  return loss;
}

void Optimizer::check_training() const {
  TORCH_CHECK(is_training(), "jitstep: step() of ", rule(), " in evaluation mode, where the ",
              "parameters hold another point than the one that is trained; call train() first");
}

void Optimizer::eval() { turn(jit::Mode::eval); }

void Optimizer::train(bool on) { turn(on ? jit::Mode::train : jit::Mode::eval); }

bool Optimizer::is_training() const { return records_->mode == jit::Mode::train; }

void Optimizer::turn(jit::Mode to) {
  if (!default_options().manifest().modes || records_->mode == to) return;
  const OwnOperations own;
  collect(Purpose::turn);
  change([&] {
    auto& work = records_->work;
    std::erase_if(work, [](const StepParameter& one) { return one.state->t == 0; });
    records_->stepper.turn(to, {work, records_->resting, records_->numbers},
                           records_->common.memory());
  });
  records_->mode = to;
}

// Makes the states ready, and takes that back if what follows fails.
void Optimizer::change(const std::function<void()>& launch) {
  try {
    bind_states();
    bind_common();
    launch();
  } catch (...) {
    restore_states();
    throw;
  }
  records_->pending.clear();
}

// Finds the parameters with gradients, or those that have taken a step, and checks all before any is changed.
void Optimizer::collect(Purpose purpose) {
  if (!groups_unchanged()) sync_groups();
  records_->start_collecting();
  for (std::size_t g = 0; g < records_->groups.size(); ++g) collect_group(g, purpose);
  if (purpose == Purpose::step) check_devices(), check_extras();
  if (!records_->memory_checked || !records_->pending.empty()) check_memory();
  if (purpose == Purpose::step) check_new_gradients();
}

// A sum over all parameters is taken on each device alone, and would be another one than torch's.
void Optimizer::check_devices() const {
  const auto& work = records_->work;
  const auto other = std::find_if(work.begin(), work.end(), [&](const StepParameter& one) {
    return one.p->device() != work.front().p->device();
  });
  if (other == work.end()) return;
  const auto sums = std::any_of(work.begin(), work.end(), [&](const StepParameter& one) {
    return records_->groups[one.name.group].members[one.name.place].shares;
  });
  TORCH_CHECK(!sums, "jitstep: parameters on ", work.front().p->device(), " and ",
              other->p->device(),
              " under max_grad_norm or another sum over all parameters, which each device would "
              "take alone; call torch::nn::utils::clip_grad_norm_ instead, or give each device an "
              "optimizer of its own");
}

// Looks anew at where parameters lie, and at every gradient.
void Optimizer::check_memory() {
  records_->memory_checked = false;
  check_distinct();
  records_->memory.clear();
  records_->new_gradients.clear();
  for (std::size_t g = 0; g < records_->groups.size(); ++g)
    for (std::size_t i = 0; i < records_->groups[g].members.size(); ++i) {
      const torch::Tensor& p = param_groups_[g].params()[i];
      Member& member = records_->groups[g].members[i];
      records_->stays(member, p);  // those that this step is not about have tables as well
      member.gradient_checked = false;
      records_->memory.add({&p, {g, i}});
      if (p.grad().defined() && !is_lazy(p.grad())) records_->new_gradients.push_back({g, i});
    }
  records_->memory_checked = true;
}

void Optimizer::check_new_gradients() {
  check_numbers();
  for (const ParameterName& name : records_->new_gradients) {
    const torch::Tensor& p = param_groups_[name.group].params()[name.place];
    records_->memory.check(p.grad(), {&p, name});
    records_->groups[name.group].members[name.place].gradient_checked = true;
  }
}

// As kernels can read it; null if there is none. What was checked and has not changed is not looked at again.
const torch::Tensor* Optimizer::gradient_of(const torch::Tensor& p, const ParameterName& name) {
  Member& member = records_->groups[name.group].members[name.place];
  const torch::Tensor* grad = &p.unsafeGetTensorImpl()->grad();  // p is a leaf: nothing to warn of
  if (member.gradient_checked && member.gradient.holds(*grad)) return grad;
  member.gradient_checked = false;
  if (!grad->defined()) return nullptr;
  if (is_lazy(*grad))
    grad = &records_->materialised.emplace_back(materialised(*grad));
  else
    records_->new_gradients.push_back(name);
  check_gradient(p, *grad, name);
  if (!member.gradient.has_form_of(*grad)) member.version = ++records_->versions;
  member.gradient = TensorPlace(*grad, TensorPlace::Access::read);
  return grad;
}

void Optimizer::refresh_options(std::size_t g) {
  GroupRecord& record = records_->groups[g].record;
  about_group(g, [&] { record.refresh(group_options(g), Moment::training, records_->numbers[g]); });
  point_to_lr(g);
}

void Optimizer::collect_group(std::size_t g, Purpose purpose) {
  refresh_options(g);
  for (std::size_t i = 0; i < param_groups_[g].params().size(); ++i) collect_member(g, i, purpose);
}

void Optimizer::collect_member(std::size_t g, std::size_t i, Purpose purpose) {
  const torch::Tensor& p = param_groups_[g].params()[i];
  const Records::Group& group = records_->groups[g];
  Member& member = records_->groups[g].members[i];
  if (member.repeated) return;
  const bool stepping = purpose == Purpose::step;
  const bool stays = records_->stays(member, p);
  const torch::Tensor* const grad = stepping ? gradient_of(p, {g, i}) : &p;
  if (grad == nullptr) {
    if (member.is_bound(held_in(state_, member.key), group.record.revision(), p, stays))
      records_->resting.push_back(member.in_step(p, nullptr, {g, i}));
    return;
  }
  const bool bound = about(p, {g, i}, [&] { return is_bound(g, i, stays); });
  if (!stepping && (member.state == nullptr || member.state->step() == 0)) return;
  if (!bound) add_pending(g, i);
  records_->work.push_back(member.in_step(p, grad, {g, i}));
}

void Optimizer::add_pending(std::size_t g, std::size_t i) {
  const torch::Tensor& p = param_groups_[g].params()[i];
  Records::Group& group = records_->groups[g];
  check_tensor(p, {g, i});
  auto plan = about(p, {g, i}, [&] { return group.record.plan(p); });
  group.members[i].shares = shares(*plan);
  records_->pending.push_back({records_->work.size(), g, i, std::move(plan), false, std::nullopt});
}

bool Optimizer::is_bound(std::size_t g, std::size_t i, bool stays) {
  Records::Group& group = records_->groups[g];
  Member& member = group.members[i];
  auto* const held = held_in(state_, member.key);
  if (member.knows(held)) {
    if (held != nullptr) member.state->check_unharmed(), member.state->check_step();
    if (member.is_bound(held, group.record.revision(), param_groups_[g].params()[i], stays))
      return true;
  }
  look_up(member, held, group.rule);
  return false;
}

// What there is to be bound, which must be state of the rule.
void Optimizer::look_up(Member& member, torch::optim::OptimizerParamState* held,
                        const std::string& rule) const {
  auto* const state = dynamic_cast<ParamState*>(held);
  TORCH_CHECK(
      held == nullptr || (state != nullptr && state->rule() == rule),
      "the state of a parameter was replaced by another optimizer's; use the state class of ",
      rule);
  member.state = state;
  member.held = held;
  member.type = held == nullptr ? nullptr : &typeid(*held);
  if (held != nullptr) state->check_unharmed(), state->check_step();
}

ParamState& Optimizer::state_for(const torch::Tensor& p, std::size_t g) {
  auto& held = state_[p.unsafeGetTensorImpl()];
  if (!held) held = make_param_state(records_->groups[g].rule, default_options().edition());
  return static_cast<ParamState&>(*held);
}

// A state keeps its id unless another parameter has it, as where it was taken over from another optimizer; a new
// one gets its parameter's, if that is free.
std::vector<int> Optimizer::ids_of_pending() const {
  std::vector<const Member*> members;
  std::set<const ParamState*> states;
  for (const auto& pending : records_->pending) {
    members.push_back(&records_->groups[pending.group].members[pending.place]);
    states.insert(members.back()->state);
  }
  std::set<int> taken = ids_but_of(states, state_);
  std::vector<int> ids;
  for (const Member* const member : members) {
    const bool keeps = member->state != nullptr && member->state->has_id() &&
                       taken.insert(member->state->id()).second;
    ids.push_back(keeps ? member->state->id() : -1);
  }
  const int unused = static_cast<int>(records_->ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0) continue;
    const bool free = taken.insert(members[i]->id).second;
    ids[i] = free ? members[i]->id : std::max(*taken.rbegin() + 1, unused);
    taken.insert(ids[i]);
  }
  return ids;
}

// Makes the state of parameters that get their first gradient, and binds again what was replaced,
// moved, or has other formats now.
void Optimizer::bind_states() {
  if (records_->pending.empty()) return;
  // First of all: a CUDA graph capture would record the making of state.
  for (const Records::PendingBinding& pending : records_->pending)
    machine_of(records_->work[pending.work].p->device()).refuse_capture();
  const std::vector<int> ids = ids_of_pending();
  std::size_t next = 0;
  for (Records::PendingBinding& pending : records_->pending) {
    Records::Group& group = records_->groups[pending.group];
    Member& member = group.members[pending.place];
    const torch::Tensor& p = *records_->work[pending.work].p;
    pending.made = member.held == nullptr;
    if (!pending.made) {
      pending.before = member.state->snapshot();
      pending.parameter = copy_if_rewritten(pending.before->buffers_, *pending.plan, p);
    }
    ParamState& state = state_for(p, pending.group);
    about(p, {pending.group, pending.place}, [&] {
      const int id = ids[next++];
      state.bind(p, pending.plan, id, group.record.initial(*pending.plan, member.number));
    });
    member.held = member.state = &state;
    member.type = &typeid(state);
    member.plan = pending.plan;
    member.revision = group.record.revision();
    records_->work[pending.work].state = &state.buffers_;
  }
}

// After a step that failed, such as for want of a compiler or of memory, every state is what it was
// before, and none is left that was not there.
void Optimizer::restore_states() {
  for (Records::PendingBinding& pending : records_->pending) {
    Member& member = records_->groups[pending.group].members[pending.place];
    if (pending.made) {
      state_.erase(member.key);
      member.held = member.state = nullptr;
    } else if (pending.before) {
      *member.state = std::move(*pending.before);
    }
    put_back(*records_->work[pending.work].p, pending.parameter);
    member.revision = -1;
  }
  records_->pending.clear();
}

// What the rule keeps for all parameters: it begins with the numbers of the first group, and anew when
// nobody has any state.
void Optimizer::bind_common() {
  if (records_->work.empty() || records_->groups.empty()) return;
  const bool anew = records_->pending.size() == state_.size() &&
                    std::all_of(records_->pending.begin(), records_->pending.end(),
                                [](const auto& pending) { return pending.made; }) &&
                    records_->common.has_stepped();  // asked last: it may wait for the device
  if (anew) records_->common.clear();
  records_->common.bind(records_->work.front().p->device(),
                        records_->groups.front().record.initial_common());
}

}  // namespace jitstep
