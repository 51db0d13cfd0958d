#include "optim/optimizer/stepper.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "jit/step/step_checks.h"
#include "jitstep/jit/catalog.h"
#include "optim/optimizer/step_numbers.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/machines.h"

namespace jitstep {
namespace {

// What a parameter was when the tables were built, and where it is in them.
struct Member {
  const StateBuffers* state;
  int revision, version;
  std::size_t device = 0, batch = 0;  // which of State::devices, and of its batches
  std::size_t place = 0;              // of its input there
  jit::StepTensor tensor;

  bool is(const StepParameter& now) const {
    return state == now.state && version == now.version && revision == now.state->revision;
  }
};

// All parameters of one device.
struct DeviceStep {
  torch::Device device;
  jit::Machine* machine;
  std::vector<jit::Batch> batches = {};
  std::optional<jit::Step> step = {};
  std::vector<jit::StepInput> inputs = {};   // batch after batch
  std::vector<std::size_t> parameters = {};  // of this step, whose they are
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
  std::vector<const Member*> found;       // of the parameters of this step
  std::vector<std::vector<int>> numbers;  // of the members, by group and place; -1: none
  std::vector<DeviceStep> devices;
  std::array<double*, 2> common = {};  // where that memory lay when the tables were built
  bool scaled = false;                 // whether their kernels divide by a grad_scale
  std::vector<HyperSet> sets;
  std::vector<std::vector<int>> sets_of_group;  // those made in this step

  // What the tables have of a parameter; null if that is out of date.
  const Member* find(const StepParameter& now) const;
  // Sets `found` and says whether they have all of them.
  bool find_all(const std::vector<StepParameter>& parameters);
  void add(Member member, const StepParameter& of, const jit::KernelSpec& spec);
  void place_inputs();
};

const Member* Stepper::State::find(const StepParameter& now) const {
  if (members.size() == 1) return members[0].is(now) ? &members[0] : nullptr;
  const auto& [group, place] = now.name;
  if (group >= numbers.size() || place >= numbers[group].size()) return nullptr;
  const int number = numbers[group][place];
  if (number < 0) return nullptr;
  const Member& member = members[static_cast<std::size_t>(number)];
  return member.is(now) ? &member : nullptr;
}

bool Stepper::State::find_all(const std::vector<StepParameter>& parameters) {
  found.clear();
  for (const StepParameter& one : parameters) found.push_back(find(one));
  return std::find(found.begin(), found.end(), nullptr) == found.end();
}

Stepper::Stepper() : state_(std::make_unique<State>()) {}
Stepper::~Stepper() = default;
Stepper::Stepper(Stepper&&) noexcept = default;
Stepper& Stepper::operator=(Stepper&&) noexcept = default;

// Puts a member into the batch of its kernel.
void Stepper::State::add(Member m, const StepParameter& of, const jit::KernelSpec& spec) {
  const torch::Device device = of.p->device();
  m.device = find_or_add(
      devices, [&](const DeviceStep& known) { return known.device == device; },
      [&] {
        return DeviceStep{device, as_torch_error([&] { return &machine_of(device); })};
      });
  auto& batches = devices[m.device].batches;
  m.batch = find_or_add(
      batches, [&](const jit::Batch& batch) { return batch.plan.spec == spec; },
      [&] {
        return jit::Batch{jit::resolve(spec), {}};
      });
  about(*of.p, of.name,
        [&] { as_argument_error([&] { jit::check_tensors(batches[m.batch].plan, {m.tensor}); }); });
  m.place = batches[m.batch].tensors.size();
  batches[m.batch].tensors.push_back(m.tensor);
  const auto& [group, place] = of.name;
  if (group >= numbers.size()) numbers.resize(group + 1);
  if (place >= numbers[group].size()) numbers[group].resize(place + 1, -1);
  numbers[group][place] = static_cast<int>(members.size());
  members.push_back(std::move(m));
}

// Inputs of a batch follow those of the batches before it.
void Stepper::State::place_inputs() {
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
  for (Member& member : members) member.place += first[member.device][member.batch];
}

namespace {

// As torch's own in-place operations do, so that autograd sees that p has changed.
void bump_version(const torch::Tensor& p) {
  if (!p.is_inference()) p.unsafeGetTensorImpl()->bump_version();
}

// One group after another, each with all of its parameters on the device.
void run_stage(const StageOfGroup& stage, const std::vector<StepParameter>& parameters,
               const DeviceStep& device, const std::vector<jit::StagedTensor>& tensors) {
  std::map<std::size_t, std::vector<torch::Tensor>> values;
  for (const jit::StagedTensor& one : tensors) {
    const StepParameter& parameter = parameters[device.parameters[one.tensor]];
    values[parameter.name.group].push_back(values_at(one.values, *parameter.p));
  }
  for (const auto& [group, given] : values) stage(group, given);
}

}  // namespace

// Where the memory of all parameters lies.
static std::array<double*, 2> place_of(const jit::CommonMemory* common) {
  return common == nullptr ? std::array<double*, 2>{} : common->halves;
}

// Copies of a state share its tensors: one may have been given to another parameter.
static void check_apart(const DeviceStep& device) {
  std::vector<const jit::StepTensor*> all;
  for (const jit::Batch& batch : device.batches)
    for (const jit::StepTensor& tensor : batch.tensors) all.push_back(&tensor);
  as_argument_error([&] { jit::check_distinct(all); });
}

void Stepper::prepare(const std::vector<StepParameter>& parameters,
                      const std::vector<StepParameter>& resting, jit::CommonMemory* common,
                      bool scaled) {
  State fresh;
  fresh.common = place_of(common);
  fresh.scaled = scaled;
  fresh.members.reserve(parameters.size() + resting.size());
  for (const StepParameter& one : parameters)
    fresh.add({.state = one.state,
               .revision = one.state->revision,
               .version = one.version,
               .tensor = step_tensor(*one.p, *one.state, one.grad->strides())},
              one, spec_of(one, scaled));
  for (const StepParameter& one : resting) {
    const Member* const known = state_->scaled == scaled ? state_->find(one) : nullptr;
    if (known != nullptr)
      fresh.add(*known, one, state_->devices[known->device].batches[known->batch].plan.spec);
  }
  fresh.place_inputs();
  for (DeviceStep& device : fresh.devices)
    check_apart(device),
        as_torch_error([&] { device.step.emplace(*device.machine, device.batches, common); });
  for (DeviceStep& device : state_->devices)
    if (device.step && !device.machine->is_capturing()) device.step->hand_over();
  *state_ = std::move(fresh);
}

// Outside of the capture steps begin with tables of their own.
void Stepper::leave_to_graphs() {
  const auto& devices = state_->devices;
  const bool left = std::any_of(devices.begin(), devices.end(), [](const DeviceStep& device) {
    return device.step && device.step->is_captured() && !device.machine->is_capturing();
  });
  if (left) captured_.push_back(std::exchange(state_, std::make_unique<State>()));
}

// Brings tables and inputs in line with the parameters, each with the numbers of the step it has taken last
// (`ahead` 0) or is about to take (1). Says whether the tables are new.
bool Stepper::update(const StepMembers& now, jit::CommonMemory* common, const StepExtras& extras,
                     int ahead) {
  State& state = *state_;
  const auto& [parameters, resting, groups] = now;
  const bool scaled = extras.grad_scale.defined();
  const bool known =
      state.common == place_of(common) && state.scaled == scaled && state.find_all(parameters);
  if (!known) {
    prepare(parameters, resting, common, scaled);
    state.find_all(parameters);
  }
  state.sets.clear();
  state.sets_of_group.resize(groups.size());
  for (auto& made : state.sets_of_group) made.clear();
  for (DeviceStep& device : state.devices)
    std::fill(device.inputs.begin(), device.inputs.end(), jit::StepInput{.rests = true});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const StepParameter& parameter = parameters[i];
    const Member& member = *state.found[i];
    DeviceStep& device = state.devices[member.device];
    void* const cleared = extras.clears ? parameter.grad->mutable_data_ptr() : nullptr;
    const void* g = parameter.grad->const_data_ptr();
    const StepCount& t = parameter.state->t;
    const int set = set_for(state.sets, state.sets_of_group[parameter.name.group],
                            groups[parameter.name.group], t.counted() + ahead, t.lag());
    device.inputs[member.place] = {g, set, device.device.is_cpu() || is_aligned(member.tensor, g),
                                   cleared};
    device.parameters[member.place] = i;
  }
  for (HyperSet& set : state.sets) {
    set.grad_scale = address(extras.grad_scale);
    set.found_inf = address(extras.found_inf);
  }
  return !known;
}

// The step that is a trial of a variant, or has been chosen by trials; null: the usual one.
jit::Step* Stepper::tuned_step(bool tables_are_new, jit::CommonMemory* common,
                               const StepExtras& extras) {
  if (!tuner_ || state_->devices.size() != 1) return nullptr;
  const DeviceStep& device = state_->devices[0];
  const TunedTables tables{*device.machine, device.batches, common,
                           [at = device.device](void* to, const void* from, std::size_t bytes) {
                             download(at, to, from, bytes);
                           }};
  if (tables_are_new) take_turn(nullptr), tuner_->begin(tables, hardware_of(device.device));
  if (extras.capturable) return nullptr;  // as a graph repeats it, by tables that it owns
  if (device.machine->is_capturing()) return nullptr;  // to be refused like any other
  return tuner_->choose(tables, device.inputs, state_->sets);
}

// Each jit::Step orders its own launches alone, so that one must be over before another takes its turn.
void Stepper::take_turn(jit::Step* tuned) {
  if (std::exchange(last_tuned_, tuned) == tuned) return;
  for (const DeviceStep& device : state_->devices)
    if (!device.machine->is_capturing()) wait_for_all(device.device);
}

void Stepper::step(const StepMembers& now, jit::CommonMemory* common, const StepExtras& extras,
                   const StageOfGroup& stage) {
  leave_to_graphs();
  const bool anew = update(now, common, extras, 1);
  State& state = *state_;
  for (DeviceStep& device : state.devices)
    as_torch_error([&] { device.step->count_on_device(extras.capturable); });
  jit::Step* const tuned = tuned_step(anew, common, extras);
  const bool is_trial = tuned != nullptr && tuner_->is_trial();
  take_turn(tuned);
  const auto step_on = [&](DeviceStep& device) -> jit::Step& {
    return tuned != nullptr ? *tuned : *device.step;
  };
  // All devices are ready before the first of them changes anything.
  for (DeviceStep& device : state.devices) step_on(device).prepare(device.inputs, state.sets);
  if (is_trial) wait_for_all(state.devices[0].device);
  const auto start = std::chrono::steady_clock::now();
  if (stage)
    for (DeviceStep& device : state.devices)
      step_on(device).stage([&](const std::vector<jit::StagedTensor>& tensors) {
        run_stage(stage, now.parameters, device, tensors);
      });
  for (DeviceStep& device : state.devices) step_on(device).launch();
  if (is_trial) wait_for_all(state.devices[0].device);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (const StepParameter& parameter : now.parameters) {
    parameter.state->t.count();
    count_empty(parameter, extras.found_inf);
    bump_version(*parameter.p);
    if (extras.clears) bump_version(*parameter.grad);
  }
  // Last, as it may ask a function of the program's.
  if (is_trial && !is_skipped(extras)) tuner_->took(seconds.count());
}

void Stepper::turn(jit::Mode to, const StepMembers& now, jit::CommonMemory* common) {
  leave_to_graphs();
  const bool anew = update(now, common, {}, 0);
  State& state = *state_;
  if (anew)  // of tables that know nothing of gradients: the next step makes its own
    for (Member& member : state.members) member.version = -1;
  take_turn(nullptr);
  for (DeviceStep& device : state.devices) device.step->prepare(to, device.inputs, state.sets);
  for (DeviceStep& device : state.devices) device.step->launch();
  for (const auto& parameter : now.parameters) bump_version(*parameter.p);
}

std::vector<KernelReport> Stepper::kernels() const {
  std::vector<KernelReport> reports;
  for (std::size_t d = 0; d < state_->devices.size(); ++d) {
    const DeviceStep& device = state_->devices[d];
    for (std::size_t b = 0; b < device.batches.size(); ++b) {
      KernelReport report{
          device.device.str(), device.step->choice(b), {}, device.step->kernel(b).built()};
      for (std::size_t g = 0; g < state_->numbers.size(); ++g)
        for (std::size_t i = 0; i < state_->numbers[g].size(); ++i) {
          if (const int number = state_->numbers[g][i]; number >= 0)
            if (const Member& one = state_->members[static_cast<std::size_t>(number)];
                one.device == d && one.batch == b)
              report.parameters.push_back({g, i});
        }
      add_kernel(reports, std::move(report));
    }
  }
  return reports;
}

}  // namespace jitstep
