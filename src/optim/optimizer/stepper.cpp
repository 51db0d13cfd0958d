#include "optim/optimizer/stepper.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <utility>

#include "jit/step/capture.h"
#include "optim/optimizer/stepper_tables.h"
#include "optim/reports/kernel_report.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {

namespace {

// Calls a transform once per group, with all of the group's parameters on the device. With ranks, on whole parameters,
// which other ranks have parts of.
void run_transform(StepRanks* ranks, const TransformOfGroup& transform, const DeviceStep& device,
                   int number, const std::vector<jit::TransformedTensor>& tensors) {
  std::map<std::size_t, std::vector<TransformedPart>> groups;
  std::vector<TransformedPart> parts;
  for (const jit::TransformedTensor& one : tensors) {
    const StepParam* const param = device.params[one.tensor];
    parts.push_back({param, values_at(one.values, *param->p)});
    groups[param->name.group].push_back(parts.back());
  }
  if (ranks != nullptr) return ranks->transform(parts, number, transform);
  for (const auto& [group, of_group] : groups) transform(group, number, of_group);
}

// A step's transforms see the matrices of state, and those that earlier transforms have assigned.
void begin_matrices(const StepParam& param) {
  param.matrices.clear();
  const jit::Plan& plan = *param.buffers->plan;
  for (std::size_t i = 0; i < plan.aux_state.size(); ++i) {
    const torch::Tensor& stored = param.buffers->aux_state[i].buffers[0];
    if (const auto& sides = plan.aux_state[i].matrix; sides && stored.numel() > 0)
      param.matrices[plan.aux_state[i].name] =
          stored.view({param.p->dim() == 0 ? 1 : param.p->size(sides->rows), -1});
  }
}

bool is_view_of_all(const torch::Tensor& stored, const torch::Tensor& matrix) {
  return matrix.is_alias_of(stored) && matrix.is_contiguous() &&
         matrix.data_ptr() == stored.data_ptr();
}

// The matrices that transforms have assigned, which may be views of the old ones. The caller copies them into the memory
// of those.
void take_matrices(const StepParam& param, MatrixCopies& copies) {
  const auto& fields = param.buffers->aux_state;
  for (const auto& field : fields) {
    const torch::Tensor& stored = field.buffers[0];
    const auto assigned = param.matrices.find(field.key);
    if (assigned == param.matrices.end() || is_view_of_all(stored, assigned->second)) continue;
    const bool is_view = std::any_of(fields.begin(), fields.end(), [&](const auto& other) {
      return assigned->second.is_alias_of(other.buffers[0]);
    });
    const torch::Tensor values = assigned->second.reshape({-1});
    copies.emplace_back(stored, is_view ? values.clone() : values);
  }
  param.matrices.clear();
}

// The tuner's step, or the device's default step.
jit::Step& step_of(DeviceStep& device, jit::Step* tuned) {
  return tuned != nullptr ? *tuned : *device.step;
}

// Stores what a step made besides the parameter: a count of empty steps, a zeroed gradient.
void store_outputs(const StepParam& param, const StepExtras& extras) {
  if (extras.found_inf.defined()) count_skipped_if_empty(param, extras.found_inf);
  if (extras.clears) bump_version(*param.grad);
}

// The addresses of the shared state.
std::array<double*, 2> buffers_of(const jit::SharedState* shared_state) {
  return shared_state == nullptr ? std::array<double*, 2>{} : shared_state->buffers;
}

}  // namespace

Stepper::Stepper() : state_(std::make_unique<State>()) {}
Stepper::~Stepper() {
  if (state_ == nullptr) return;  // moved from
  try {
    drop_captured();
  } catch (const std::exception&) {  // the driver has ended, with all replays
  }
}
Stepper::Stepper(Stepper&&) noexcept = default;
Stepper& Stepper::operator=(Stepper&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);  // waits for replays
  return *std::construct_at(this, std::move(other));
}

void Stepper::prepare(const std::vector<StepParam*>& active,
                      const std::vector<StepParam*>& inactive, jit::SharedState* shared_state,
                      bool scaled) {
  State fresh;
  fresh.shared_state = buffers_of(shared_state);
  fresh.scaled = scaled;
  for (StepParam* const param : active) fresh.add_active(*param);
  for (StepParam* const param : inactive) fresh.add_inactive(*param, *state_);
  fresh.number_inputs({&active, &inactive});
  for (DeviceStep& device : fresh.devices) {
    as_torch_error([&] { device.step.emplace(*device.backend, device.batches, shared_state); });
    device.step->set_exchange(exchange());
  }
  wait_for_last_step();
  *state_ = std::move(fresh);
}

void Stepper::wait_for_last_step() {
  for (DeviceStep& device : state_->devices)
    if (device.step && !device.backend->is_capturing()) device.step->wait_for_last_step();
}

jit::Exchange Stepper::exchange() const {
  if (ranks_ == nullptr) return {};
  return [ranks = ranks_](const auto& partials) { ranks->exchange(partials); };
}

// After a capture its graph owns the tables. Steps outside the capture start with new ones.
void Stepper::leave_to_graphs() {
  const auto& devices = state_->devices;
  const bool left = std::any_of(devices.begin(), devices.end(), [](const DeviceStep& device) {
    return device.step && device.step->is_captured() && !device.backend->is_capturing();
  });
  if (left) captured_.push_back(std::exchange(state_, std::make_unique<State>()));
}

// A replay steps only the devices whose streams the capture has.
void Stepper::check_captures(const std::vector<StepParam*>& active) const {
  const std::vector<DeviceStep>& devices = state_->devices;
  if (devices.size() < 2) return;
  std::vector<bool> steps(devices.size());
  for (const StepParam* const param : active) steps[param->row.device] = true;
  std::vector<jit::Backend*> backends;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (steps[i]) backends.push_back(devices[i].backend);
  jit::check_same_capture(backends);
}

// Updates tables and inputs for the parameters. True if the tables are new.
bool Stepper::update(const StepMembers& now, jit::SharedState* shared_state,
                     const StepExtras& extras, int ahead) {
  const bool scaled = extras.grad_scale.defined();
  if (state_->shared_state == buffers_of(shared_state) && state_->scaled == scaled &&
      state_->set_inputs(now, extras, ahead))
    return false;
  prepare(now.active, now.inactive, shared_state, scaled);
  state_->set_inputs(now, extras, ahead);
  return true;
}

// A step with a configuration that the tuner tries or has chosen. Null: use the default step.
jit::Step* Stepper::tuned_step(bool tables_are_new, jit::SharedState* shared_state,
                               const StepExtras& extras) {
  if (!tuner_ || state_->devices.size() != 1) return nullptr;
  const DeviceStep& device = state_->devices[0];
  const jit::TunerInput tables{*device.backend, device.batches, shared_state,
                               [at = device.device](void* to, const void* from, std::size_t bytes) {
                                 download(at, to, from, bytes);
                               },
                               exchange()};
  if (tables_are_new || tuner_is_new_) {
    tuner_is_new_ = true;  // also in the next step, if begin() throws
    activate(nullptr);
    tuner_->begin(tables, hardware_of(device.device));
    tuner_is_new_ = false;
  }
  if (extras.capturable) return nullptr;  // a graph repeats the step with tables that it owns
  if (device.backend->is_capturing()) return nullptr;  // the default step throws
  return tuner_->choose(tables, device.inputs, state_->hyper_params.all());
}

// A jit::Step orders only its own launches, so one must be complete before another one is used.
void Stepper::activate(jit::Step* tuned) {
  if (std::exchange(last_tuned_, tuned) == tuned) return;
  for (const DeviceStep& device : state_->devices)
    if (!device.backend->is_capturing()) wait_for_all(device.device);
}

// Prepares all devices before the first one changes anything. Returns the step of the tuner, or null.
jit::Step* Stepper::prepare_step(const StepMembers& now, jit::SharedState* shared_state,
                                 const StepExtras& extras) {
  const bool rebuilt = update(now, shared_state, extras, 1);
  State& state = *state_;
  for (DeviceStep& device : state.devices) device.step->count_on_device(extras.capturable);
  jit::Step* const tuned = tuned_step(rebuilt, shared_state, extras);
  activate(tuned);
  check_captures(now.active);
  for (DeviceStep& device : state.devices)
    step_of(device, tuned).prepare(device.inputs, state.hyper_params.all());
  return tuned;
}

void Stepper::step(const StepMembers& now, jit::SharedState* shared_state, const StepExtras& extras,
                   const TransformOfGroup& transform) {
  leave_to_graphs();
  trial_seconds_.reset();
  jit::Step* const tuned = as_torch_error([&] { return prepare_step(now, shared_state, extras); });
  const bool is_trial = tuned != nullptr && tuner_->is_trial();
  State& state = *state_;
  if (ranks_ != nullptr) ranks_->agree();
  if (is_trial) wait_for_all(state.devices[0].device);
  const auto start = std::chrono::steady_clock::now();
  const MatrixCopies matrices = launch(now, tuned, transform);
  if (is_trial) wait_for_all(state.devices[0].device);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (const StepParam* const param : now.active) {
    param->buffers->t.count();
    bump_version(*param->p);
  }
  for (const auto& [stored, values] : matrices) overwrite(stored, values);
  for (const StepParam* const param : now.active) store_outputs(*param, extras);
  if (is_trial && !is_skipped(extras)) trial_seconds_ = seconds.count();
}

// Runs the host transforms and the kernels of a prepared step. Returns the matrices that the transforms have assigned,
// to be stored after the launch. Those that are views of stored ones are copied before it, because memory may run out.
MatrixCopies Stepper::launch(const StepMembers& now, jit::Step* tuned,
                             const TransformOfGroup& transform) {
  std::vector<DeviceStep>& devices = state_->devices;
  MatrixCopies matrices;
  if (transform) {
    for (const StepParam* const param : now.active) {
      DeviceStep& device = devices[param->row.device];
      device.params[static_cast<std::size_t>(param->row.input - device.inputs.data())] = param;
      begin_matrices(*param);
    }
    for (DeviceStep& device : devices) {
      int number = 0;
      step_of(device, tuned).host_transform([&](const std::vector<jit::TransformedTensor>& given) {
        run_transform(ranks_, transform, device, number++, given);
      });
    }
    for (const StepParam* const param : now.active) take_matrices(*param, matrices);
  }
  for (DeviceStep& device : devices) step_of(device, tuned).launch();
  return matrices;
}

void Stepper::drop_captured() {
  leave_to_graphs();
  for (const auto& state : captured_)
    for (const DeviceStep& device : state->devices) wait_for_all(device.device);
  captured_.clear();
}

void Stepper::tune(std::unique_ptr<jit::StepTuner> tuner) {
  tuner_ = std::move(tuner);
  tuner_is_new_ = true;
}

void Stepper::finish_trial() {
  if (const auto seconds = std::exchange(trial_seconds_, {}); seconds && tuner_)
    tuner_->record(*seconds);
}

void Stepper::switch_mode(jit::Mode to, const StepMembers& now, jit::SharedState* shared_state) {
  leave_to_graphs();
  const bool rebuilt = as_torch_error([&] { return update(now, shared_state, {}, 0); });
  State& state = *state_;
  if (rebuilt)
    state.id = State::new_id();  // its tables have no gradients, so the next step builds new ones
  activate(nullptr);
  for (DeviceStep& device : state.devices)
    as_torch_error([&] { device.step->prepare(to, device.inputs, state.hyper_params.all()); });
  if (ranks_ != nullptr) ranks_->agree();
  for (DeviceStep& device : state.devices) device.step->launch();
  for (const StepParam* const param : now.active) bump_version(*param->p);
}

std::vector<KernelReport> Stepper::kernels() const {
  std::vector<KernelReport> reports;
  for (const DeviceStep& device : state_->devices)
    for (std::size_t b = 0; b < device.batches.size(); ++b) {
      KernelReport report{
          device.device.str(), device.step->choice(b), {}, device.step->kernel(b).built()};
      for (const auto& [group, index] : device.names[b])
        report.parameters.push_back({group, index});
      add_kernel(reports, std::move(report));
    }
  return reports;
}

}  // namespace jitstep
