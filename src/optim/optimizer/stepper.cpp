#include "optim/optimizer/stepper.h"

#include <algorithm>

#include "jitstep/jit/catalog.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/machines.h"

namespace jitstep {
namespace {

// What a parameter was when the tables were built. Everything that may change between two steps
// without the optimizer saying so is compared in each of them.
struct Member {
  const StateBuffers* state;
  int revision;
  const void* p;
  torch::ScalarType grad_type;
  std::vector<std::int64_t> p_strides, g_strides;
  int plan = 0, group = 0, place = 0;  // where its inputs go
  jit::StepTensor tensor;

  bool is(const StepParameter& now) const {
    return state == now.state && revision == now.state->revision && p == now.p->data_ptr() &&
           grad_type == now.grad->scalar_type() && now.p->strides() == p_strides &&
           now.grad->strides() == g_strides;
  }
};

// A launch group in the making.
struct Group {
  jit::KernelSpec spec;
  std::vector<jit::StepTensor> tensors;
};

// All groups of one device.
struct Plan {
  torch::Device device;
  jit::Machine* machine;
  std::vector<Group> drafts;
  std::vector<jit::StepGroup> groups;
  std::vector<jit::StepGroup*> order;
  std::vector<std::vector<jit::StepInput>> inputs;
};

jit::KernelSpec spec_of(const StepParameter& parameter) {
  jit::KernelSpec spec = parameter.state->spec;
  spec.gradient = dtype_of(*parameter.grad);
  const jit::Shape shape = shape_of(*parameter.p);
  const auto compact = jit::compact_strides(shape);
  const jit::Shape grad = shape_of(*parameter.grad);
  spec.strided = !jit::is_dense(shape, compact) || !jit::is_dense(grad, compact);
  return spec;
}

template <class T, class Same, class Make>
int find_or_add(std::vector<T>& items, Same same, Make make) {
  const auto found = std::find_if(items.begin(), items.end(), same);
  if (found != items.end()) return static_cast<int>(found - items.begin());
  items.push_back(make());
  return static_cast<int>(items.size()) - 1;
}

}  // namespace

struct Stepper::State {
  std::vector<Member> members;
  std::vector<Plan> plans;
  std::vector<HyperSet> sets;
  std::vector<std::vector<int>> sets_of_group;  // those made in this step
};

Stepper::Stepper() : state_(std::make_unique<State>()) {}
Stepper::~Stepper() = default;
Stepper::Stepper(Stepper&&) noexcept = default;
Stepper& Stepper::operator=(Stepper&&) noexcept = default;

namespace {

Member draft_member(const StepParameter& parameter, std::vector<Plan>& plans) {
  Member m{parameter.state,
           parameter.state->revision,
           parameter.p->data_ptr(),
           parameter.grad->scalar_type(),
           parameter.p->strides().vec(),
           parameter.grad->strides().vec(),
           0,
           0,
           0,
           step_tensor(*parameter.p, *parameter.state, parameter.grad->strides())};
  const torch::Device device = parameter.p->device();
  m.plan = find_or_add(
      plans, [&](const Plan& plan) { return plan.device == device; },
      [&] { return Plan{device, &machine_of(device), {}, {}, {}, {}}; });
  auto& drafts = plans[m.plan].drafts;
  const jit::KernelSpec spec = spec_of(parameter);
  m.group = find_or_add(
      drafts, [&](const Group& g) { return g.spec == spec; },
      [&] {
        return Group{spec, {}};
      });
  m.place = static_cast<int>(drafts[m.group].tensors.size());
  drafts[m.group].tensors.push_back(m.tensor);
  return m;
}

void build(Plan& plan) {
  std::vector<jit::KernelSpec*> specs;
  for (Group& draft : plan.drafts) specs.push_back(&draft.spec);
  jit::share_sums(specs);
  plan.groups.reserve(plan.drafts.size());
  for (const Group& draft : plan.drafts) {
    const jit::Plan kernel = jit::resolve(draft.spec);
    plan.groups.emplace_back(*plan.machine, kernel,
                             jit::default_variant(kernel, plan.machine->target()), draft.tensors);
  }
  for (auto& group : plan.groups) {
    plan.order.push_back(&group);
    plan.inputs.emplace_back(group.size());
  }
  plan.drafts.clear();
}

}  // namespace

void Stepper::prepare(const std::vector<StepParameter>& parameters) {
  std::vector<Member> members;
  std::vector<Plan> plans;
  members.reserve(parameters.size());
  for (const auto& parameter : parameters) members.push_back(draft_member(parameter, plans));
  for (Plan& plan : plans) build(plan);
  state_->members = std::move(members);
  state_->plans = std::move(plans);
}

// The set of a group at a step number, made at its first use in this step.
static int set_for(std::vector<HyperSet>& sets, std::vector<int>& made, const HyperSet& numbers,
                   std::int64_t t) {
  for (int set : made)
    if (sets[set].t == t) return set;
  sets.push_back(numbers);
  sets.back().t = t;
  made.push_back(static_cast<int>(sets.size()) - 1);
  return made.back();
}

void Stepper::step(const std::vector<StepParameter>& parameters,
                   const std::vector<HyperSet>& groups) {
  State& state = *state_;
  const bool same =
      std::equal(state.members.begin(), state.members.end(), parameters.begin(), parameters.end(),
                 [](const Member& member, const StepParameter& now) { return member.is(now); });
  if (!same) prepare(parameters);
  state.sets.clear();
  state.sets_of_group.resize(groups.size());
  for (auto& made : state.sets_of_group) made.clear();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const StepParameter& parameter = parameters[i];
    const Member& member = state.members[i];
    Plan& plan = state.plans[member.plan];
    const void* g = parameter.grad->const_data_ptr();
    const int set = set_for(state.sets, state.sets_of_group[parameter.group],
                            groups[parameter.group], parameter.state->t + 1);
    plan.inputs[member.group][member.place] = {
        g, set, plan.device.is_cpu() || is_aligned(member.tensor, g)};
  }
  // All devices are ready before the first of them changes anything.
  for (Plan& plan : state.plans) jit::prepare_step(plan.order, plan.inputs, state.sets);
  for (Plan& plan : state.plans) jit::launch_step(plan.order);
  for (const auto& parameter : parameters) {
    ++parameter.state->t;
    // As torch's own in-place operations do, so that autograd sees that p has changed.
    if (!parameter.p->is_inference()) parameter.p->unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace jitstep
