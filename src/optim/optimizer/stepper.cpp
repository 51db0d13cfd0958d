#include "optim/optimizer/stepper.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "jit/step/step_checks.h"
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
  std::size_t device = 0, batch = 0;  // which of State::devices, and of its batches
  std::size_t place = 0;              // of its input there
  jit::StepTensor tensor;

  bool is(const StepParameter& now) const {
    return state == now.state && revision == now.state->revision && p == now.p->data_ptr() &&
           grad_type == now.grad->scalar_type() && now.p->strides() == p_strides &&
           now.grad->strides() == g_strides;
  }
};

// All parameters of one device.
struct DeviceStep {
  torch::Device device;
  jit::Machine* machine;
  std::vector<jit::Batch> batches = {};  // until the step is made of them
  std::optional<jit::Step> step = {};
  std::vector<jit::StepInput> inputs = {};   // batch after batch
  std::vector<std::size_t> parameters = {};  // whose they are
};

jit::KernelSpec spec_of(const StepParameter& parameter, bool scaled) {
  jit::KernelSpec spec = parameter.state->plan->spec;
  if (scaled) spec.gradient_flags["scaled"] = true;
  spec.gradient = dtype_of(*parameter.grad);
  const jit::Shape shape = shape_of(*parameter.p);
  const auto compact = jit::compact_strides(shape);
  const jit::Shape grad = shape_of(*parameter.grad);
  spec.strided = !jit::is_dense(shape, compact) || !jit::is_dense(grad, compact);
  return spec;
}

template <class T, class Same, class Make>
std::size_t find_or_add(std::vector<T>& items, Same same, Make make) {
  const auto found = std::find_if(items.begin(), items.end(), same);
  const auto place = static_cast<std::size_t>(found - items.begin());
  if (found == items.end()) items.push_back(make());
  return place;
}

}  // namespace

struct Stepper::State {
  std::vector<Member> members;
  std::vector<DeviceStep> devices;
  std::array<double*, 2> common = {};  // where that memory lay when the tables were built
  bool scaled = false;                 // whether their kernels divide by a grad_scale
  std::vector<HyperSet> sets;
  std::vector<std::vector<int>> sets_of_group;  // those made in this step
};

Stepper::Stepper() : state_(std::make_unique<State>()) {}
Stepper::~Stepper() = default;
Stepper::Stepper(Stepper&&) noexcept = default;
Stepper& Stepper::operator=(Stepper&&) noexcept = default;

namespace {

Member draft_member(const StepParameter& parameter, bool scaled, std::vector<DeviceStep>& devices) {
  Member m{.state = parameter.state,
           .revision = parameter.state->revision,
           .p = parameter.p->data_ptr(),
           .grad_type = parameter.grad->scalar_type(),
           .p_strides = parameter.p->strides().vec(),
           .g_strides = parameter.grad->strides().vec(),
           .tensor = step_tensor(*parameter.p, *parameter.state, parameter.grad->strides())};
  const torch::Device device = parameter.p->device();
  m.device = find_or_add(
      devices, [&](const DeviceStep& known) { return known.device == device; },
      [&] {
        return DeviceStep{device, &machine_of(device)};
      });
  auto& batches = devices[m.device].batches;
  const jit::KernelSpec spec = spec_of(parameter, scaled);
  m.batch = find_or_add(
      batches, [&](const jit::Batch& batch) { return batch.plan.spec == spec; },
      [&] {
        return jit::Batch{jit::resolve(spec), {}};
      });
  about(*parameter.p, parameter.name,
        [&] { as_argument_error([&] { jit::check_tensors(batches[m.batch].plan, {m.tensor}); }); });
  m.place = batches[m.batch].tensors.size();
  batches[m.batch].tensors.push_back(m.tensor);
  return m;
}

// As torch's own in-place operations do, so that autograd sees that p has changed.
void bump_version(const torch::Tensor& p) {
  if (!p.is_inference()) p.unsafeGetTensorImpl()->bump_version();
}

// Inputs of a batch follow those of the batches before it.
void place_inputs(std::vector<Member>& members, std::vector<DeviceStep>& devices) {
  std::vector<std::vector<std::size_t>> first(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    std::size_t count = 0;
    for (const jit::Batch& batch : devices[i].batches) {
      first[i].push_back(count);
      count += batch.tensors.size();
    }
    devices[i].inputs.resize(count);
    devices[i].parameters.resize(count);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    Member& member = members[i];
    member.place += first[member.device][member.batch];
    devices[member.device].parameters[member.place] = i;
  }
}

// Memory of the kernels' as a tensor like the parameter: in its storage order, as wide as the arithmetic.
torch::Tensor values_of(const torch::Tensor& p, void* memory) {
  const auto options = p.options().dtype(real_dtype(dtype_of(p))).requires_grad(false);
  if (p.dim() == 0) return torch::from_blob(memory, {}, options);
  return torch::from_blob(memory, p.sizes(), jit::compact_strides(shape_of(p)), options);
}

// One group after another, each with all of its parameters on the device.
void run_stage(const StageOfGroup& stage, const std::vector<StepParameter>& parameters,
               const DeviceStep& device, const std::vector<jit::StagedTensor>& tensors) {
  std::map<std::size_t, std::vector<torch::Tensor>> values;
  for (const jit::StagedTensor& one : tensors) {
    const StepParameter& parameter = parameters[device.parameters[one.tensor]];
    values[parameter.name.group].push_back(values_of(*parameter.p, one.values));
  }
  for (const auto& [group, given] : values) stage(group, given);
}

}  // namespace

// Where the memory of all parameters lies.
static std::array<double*, 2> place_of(const jit::CommonMemory* common) {
  return common == nullptr ? std::array<double*, 2>{} : common->halves;
}

void Stepper::prepare(const std::vector<StepParameter>& parameters, jit::CommonMemory* common,
                      bool scaled) {
  std::vector<Member> members;
  std::vector<DeviceStep> devices;
  members.reserve(parameters.size());
  for (const auto& parameter : parameters)
    members.push_back(draft_member(parameter, scaled, devices));
  place_inputs(members, devices);
  for (DeviceStep& device : devices)
    device.step.emplace(*device.machine, std::exchange(device.batches, {}), common);
  state_->members = std::move(members);
  state_->devices = std::move(devices);
  state_->common = place_of(common);
  state_->scaled = scaled;
}

// The set of a group at a step number, made at its first use in this step. A parameter whose device counts
// steps that it skips has one of its own, which is none of those that were made for others.
static int set_for(std::vector<HyperSet>& sets, std::vector<int>& made, const HyperSet& numbers,
                   std::int64_t t, const torch::Tensor& lag) {
  for (int set : made)
    if (sets[set].t == t && !lag.defined()) return set;
  sets.push_back(numbers);
  sets.back().t = t;
  const int set = static_cast<int>(sets.size()) - 1;
  if (lag.defined())
    sets.back().lag = reinterpret_cast<int64*>(lag.data_ptr());
  else
    made.push_back(set);
  return set;
}

static const float* address(const torch::Tensor& number) {
  return number.defined() ? number.const_data_ptr<float>() : nullptr;
}

// What kernels count they count for tensors with elements.
static void count_empty(const StepParameter& parameter, const torch::Tensor& found_inf) {
  if (found_inf.defined() && parameter.p->numel() == 0)
    parameter.state->t.lag().add_(found_inf.reshape({}).ne(0));
}

// Brings tables and inputs in line with the parameters, each with the numbers of the step it has taken last
// (`ahead` 0) or is about to take (1).
void Stepper::update(const std::vector<StepParameter>& parameters,
                     const std::vector<HyperSet>& groups, jit::CommonMemory* common,
                     const StepExtras& extras, int ahead) {
  State& state = *state_;
  const bool scaled = extras.grad_scale.defined();
  const bool same =
      state.common == place_of(common) && state.scaled == scaled &&
      std::equal(state.members.begin(), state.members.end(), parameters.begin(), parameters.end(),
                 [](const Member& member, const StepParameter& now) { return member.is(now); });
  if (!same) prepare(parameters, common, scaled);
  state.sets.clear();
  state.sets_of_group.resize(groups.size());
  for (auto& made : state.sets_of_group) made.clear();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const StepParameter& parameter = parameters[i];
    const Member& member = state.members[i];
    DeviceStep& device = state.devices[member.device];
    void* const cleared = extras.clears ? parameter.grad->mutable_data_ptr() : nullptr;
    const void* g = parameter.grad->const_data_ptr();
    const StepCount& t = parameter.state->t;
    const int set = set_for(state.sets, state.sets_of_group[parameter.name.group],
                            groups[parameter.name.group], t.counted() + ahead, t.lag());
    device.inputs[member.place] = {g, set, device.device.is_cpu() || is_aligned(member.tensor, g),
                                   cleared};
  }
  for (HyperSet& set : state.sets) {
    set.grad_scale = address(extras.grad_scale);
    set.found_inf = address(extras.found_inf);
  }
}

void Stepper::step(const std::vector<StepParameter>& parameters,
                   const std::vector<HyperSet>& groups, jit::CommonMemory* common,
                   const StepExtras& extras, const StageOfGroup& stage) {
  update(parameters, groups, common, extras, 1);
  State& state = *state_;
  // All devices are ready before the first of them changes anything.
  for (DeviceStep& device : state.devices) device.step->prepare(device.inputs, state.sets);
  if (stage)
    for (DeviceStep& device : state.devices)
      device.step->stage([&](const std::vector<jit::StagedTensor>& tensors) {
        run_stage(stage, parameters, device, tensors);
      });
  for (DeviceStep& device : state.devices) device.step->launch();
  for (const auto& parameter : parameters) {
    parameter.state->t.count();
    count_empty(parameter, extras.found_inf);
    bump_version(*parameter.p);
    if (extras.clears) bump_version(*parameter.grad);
  }
}

void Stepper::turn(jit::Mode to, const std::vector<StepParameter>& parameters,
                   const std::vector<HyperSet>& groups, jit::CommonMemory* common) {
  update(parameters, groups, common, {}, 0);
  State& state = *state_;
  for (DeviceStep& device : state.devices) device.step->prepare(to, device.inputs, state.sets);
  for (DeviceStep& device : state.devices) device.step->launch();
  for (const auto& parameter : parameters) bump_version(*parameter.p);
}

}  // namespace jitstep
