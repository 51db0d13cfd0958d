#include "optim/optimizer/stepper.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "jit/step/step_checks.h"
#include "jitstep/jit/catalog.h"
#include "optim/optimizer/step_hyper_params.h"
#include "optim/reports/kernel_report.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

// What determines the kernel of a parameter.
struct KernelKey {
  const jit::Plan* plan;
  jit::Dtype gradient;
  bool strided;

  auto operator<=>(const KernelKey&) const = default;
};

// All parameters of one device.
struct DeviceStep {
  torch::Device device;
  jit::Backend* backend;
  std::vector<jit::Batch> batches = {};
  std::vector<std::vector<ParameterName>> names = {};  // of each batch's tensors
  std::map<KernelKey, std::size_t> batch_of = {};
  std::vector<std::size_t> first = {};  // index of each batch's first input
  std::optional<jit::Step> step = {};
  std::vector<jit::StepInput> inputs = {};    // in the order of batches
  std::vector<const StepParam*> params = {};  // by input, of the current step

  const jit::StepTensor& tensor(const TableRow& row) const {
    return batches[row.batch].tensors[row.index];
  }
};

jit::KernelSpec spec_of(const KernelKey& key, bool scaled) {
  jit::KernelSpec spec = key.plan->spec;
  if (scaled) spec.gradient_flags["scaled"] = true;
  spec.gradient = key.gradient;
  spec.strided = key.strided;
  return spec;
}

KernelKey kernel_key(const StepParam& param) {
  const jit::Shape shape = shape_of(*param.p);
  const auto compact = jit::compact_strides(shape);
  const bool strided =
      !jit::is_dense(shape, compact) || !jit::is_dense(shape_of(*param.grad), compact);
  return {param.buffers->plan.get(), dtype_of(*param.grad), strided};
}

std::uint64_t new_tables_id() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

template <class T, class Same, class Make>
std::size_t find_or_add(std::vector<T>& items, Same same, Make make) {
  const auto found = std::find_if(items.begin(), items.end(), same);
  const auto index = static_cast<std::size_t>(found - items.begin());
  if (found == items.end()) items.push_back(make());
  return index;
}

}  // namespace

struct Stepper::State {
  std::uint64_t id = new_tables_id();  // rows of other tables have another one
  std::vector<DeviceStep> devices;
  std::array<double*, 2> shared_state = {};  // addresses when the tables were built
  bool scaled = false;                       // the kernels divide by grad_scale
  StepHyperParams hyper_params;

  bool has_row(const StepParam& param) const {
    const TableRow& row = param.row;
    return row.tables == id && row.buffers == param.buffers && row.version == param.version &&
           row.revision == param.buffers->revision;
  }
  DeviceStep& device_of(StepParam& param);
  std::size_t batch_of(DeviceStep& device, const KernelKey& key) const;
  void add(StepParam& param, jit::StepTensor tensor, const KernelKey& key);
  void number_inputs();
  bool set_inputs(const StepMembers& now, const StepExtras& extras, int ahead);
};

Stepper::Stepper() : state_(std::make_unique<State>()) {}
Stepper::~Stepper() = default;
Stepper::Stepper(Stepper&&) noexcept = default;
Stepper& Stepper::operator=(Stepper&&) noexcept = default;

DeviceStep& Stepper::State::device_of(StepParam& param) {
  const torch::Device device = param.p->device();
  param.row.device = find_or_add(
      devices, [&](const DeviceStep& known) { return known.device == device; },
      [&] {
        return DeviceStep{device, as_torch_error([&] { return &backend_of(device); })};
      });
  return devices[param.row.device];
}

// The batch of a kernel. Plans of several groups may be equal, and then share a batch.
std::size_t Stepper::State::batch_of(DeviceStep& device, const KernelKey& key) const {
  const auto [known, added] = device.batch_of.try_emplace(key, 0);
  if (!added) return known->second;
  jit::Plan plan = jit::resolve(spec_of(key, scaled), *key.plan->catalog);
  known->second = find_or_add(
      device.batches, [&](const jit::Batch& batch) { return batch.plan.is_same_kernel(plan); },
      [&] {
        return jit::Batch{std::move(plan), {}};
      });
  device.names.resize(device.batches.size());
  return known->second;
}

void Stepper::State::add(StepParam& param, jit::StepTensor tensor, const KernelKey& key) {
  param.row = {id, param.buffers, param.buffers->revision, param.version};
  DeviceStep& device = device_of(param);
  const std::size_t index = param.row.batch = batch_of(device, key);
  jit::Batch& batch = device.batches[index];
  with_context(*param.p, param.name,
               [&] { rethrow_as_torch_error([&] { jit::check_tensors(batch.plan, {tensor}); }); });
  device.names[index].push_back(param.name);
  param.row.index = batch.tensors.size();
  batch.tensors.push_back(std::move(tensor));
}

// Numbers the inputs batch by batch.
void Stepper::State::number_inputs() {
  for (DeviceStep& device : devices) {
    std::size_t count = 0;
    for (const jit::Batch& batch : device.batches) {
      device.first.push_back(count);
      count += batch.tensors.size();
    }
    device.inputs.resize(count);
    device.params.resize(count);
    device.batch_of.clear();  // its plans may not outlive the tables
  }
}

// Sets the inputs of a step. False if the tables lack the current row of a parameter. `ahead`: 0 for the HyperParams of
// the last step, 1 for those of the next one.
bool Stepper::State::set_inputs(const StepMembers& now, const StepExtras& extras, int ahead) {
  hyper_params.start(now.groups, extras);
  for (DeviceStep& device : devices)
    std::fill(device.inputs.begin(), device.inputs.end(), jit::StepInput{.inactive = true});
  for (const StepParam* const param : now.active) {
    if (!has_row(*param)) return false;
    const TableRow& row = param->row;
    DeviceStep& device = devices[row.device];
    const StepCount& t = param->buffers->t;
    const std::size_t input = device.first[row.batch] + row.index;
    device.params[input] = param;
    device.inputs[input] = {
        param->g, hyper_params.index(param->name.group, t.counted() + ahead, t.step_offset()),
        device.device.is_cpu() || is_aligned(device.tensor(row), param->g),
        extras.clears ? param->grad->mutable_data_ptr() : nullptr};
    for (std::size_t i = 0; param->inputs != nullptr && i < param->inputs->size(); ++i)
      if (const torch::Tensor& one = (*param->inputs)[i]; one.defined())
        device.inputs[input].inputs[i] = one.const_data_ptr();
  }
  return true;
}

namespace {

// torch's in-place operations do this, too. It tells autograd that p has changed.
void bump_version(const torch::Tensor& p) {
  if (!p.is_inference()) p.unsafeGetTensorImpl()->bump_version();
}

// Calls the transform once per group, with all of the group's parameters on the device.
void run_transform(const TransformOfGroup& transform, const DeviceStep& device,
                   const std::vector<jit::TransformedTensor>& tensors) {
  std::map<std::size_t, std::vector<TransformedPart>> values;
  for (const jit::TransformedTensor& one : tensors) {
    const StepParam* const param = device.params[one.tensor];
    values[param->name.group].push_back({param, values_at(one.values, *param->p)});
  }
  for (const auto& [group, of_group] : values) transform(group, of_group);
}

}  // namespace

// The same on whole parameters, which other ranks have parts of.
static void run_transform(StepRanks& ranks, const TransformOfGroup& transform,
                          const DeviceStep& device,
                          const std::vector<jit::TransformedTensor>& tensors) {
  std::vector<TransformedPart> parts;
  for (const jit::TransformedTensor& one : tensors) {
    const StepParam* const param = device.params[one.tensor];
    parts.push_back({param, values_at(one.values, *param->p)});
  }
  ranks.transform(parts, transform);
}

// The addresses of the shared state.
static std::array<double*, 2> buffers_of(const jit::SharedState* shared_state) {
  return shared_state == nullptr ? std::array<double*, 2>{} : shared_state->buffers;
}

// Copies of a state share its tensors, and the user may have given a copy to another parameter.
static void check_no_sharing(const DeviceStep& device) {
  std::vector<const jit::StepTensor*> all;
  for (const jit::Batch& batch : device.batches)
    for (const jit::StepTensor& tensor : batch.tensors) all.push_back(&tensor);
  rethrow_as_torch_error([&] { jit::check_distinct(all); });
}

void Stepper::prepare(const std::vector<StepParam*>& active,
                      const std::vector<StepParam*>& inactive, jit::SharedState* shared_state,
                      bool scaled) {
  State fresh;
  fresh.shared_state = buffers_of(shared_state);
  fresh.scaled = scaled;
  for (StepParam* const param : active)
    fresh.add(*param, step_tensor(*param->p, *param->buffers, param->grad->strides()),
              kernel_key(*param));
  for (StepParam* const param : inactive) {
    if (state_->scaled != scaled || !state_->has_row(*param)) continue;
    const DeviceStep& known = state_->devices[param->row.device];
    const jit::KernelSpec& spec = known.batches[param->row.batch].plan.spec;
    fresh.add(*param, known.tensor(param->row),
              {param->buffers->plan.get(), spec.gradient, spec.strided});
  }
  fresh.number_inputs();
  for (DeviceStep& device : fresh.devices)
    check_no_sharing(device),
        as_torch_error([&] { device.step.emplace(*device.backend, device.batches, shared_state); }),
        device.step->set_exchange(exchange());
  for (DeviceStep& device : state_->devices)
    if (device.step && !device.backend->is_capturing()) device.step->activate_step();
  *state_ = std::move(fresh);
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
  const jit::TunedTables tables{
      *device.backend, device.batches, shared_state,
      [at = device.device](void* to, const void* from, std::size_t bytes) {
        download(at, to, from, bytes);
      },
      exchange()};
  if (tables_are_new) activate(nullptr), tuner_->begin(tables, hardware_of(device.device));
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

void Stepper::step(const StepMembers& now, jit::SharedState* shared_state, const StepExtras& extras,
                   const TransformOfGroup& transform) {
  leave_to_graphs();
  const bool rebuilt = update(now, shared_state, extras, 1);
  State& state = *state_;
  for (DeviceStep& device : state.devices)
    as_torch_error([&] { device.step->count_on_device(extras.capturable); });
  jit::Step* const tuned = tuned_step(rebuilt, shared_state, extras);
  const bool is_trial = tuned != nullptr && tuner_->is_trial();
  activate(tuned);
  const auto step_on = [&](DeviceStep& device) -> jit::Step& {
    return tuned != nullptr ? *tuned : *device.step;
  };
  // Prepare all devices before the first one changes anything.
  for (DeviceStep& device : state.devices)
    step_on(device).prepare(device.inputs, state.hyper_params.all());
  if (ranks_ != nullptr) ranks_->agree();
  if (is_trial) wait_for_all(state.devices[0].device);
  const auto start = std::chrono::steady_clock::now();
  if (transform)
    for (DeviceStep& device : state.devices)
      step_on(device).host_transform([&](const std::vector<jit::TransformedTensor>& tensors) {
        if (ranks_ != nullptr)
          run_transform(*ranks_, transform, device, tensors);
        else
          run_transform(transform, device, tensors);
      });
  for (DeviceStep& device : state.devices) step_on(device).launch();
  if (is_trial) wait_for_all(state.devices[0].device);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  for (const StepParam* const param : now.active) {
    param->buffers->t.count();
    if (extras.found_inf.defined()) count_empty(*param, extras.found_inf);
    bump_version(*param->p);
    if (extras.clears) bump_version(*param->grad);
  }
  // Must be last, because it may call the user's TuningAgreement.
  if (is_trial && !is_skipped(extras)) tuner_->record(seconds.count());
}

void Stepper::switch_mode(jit::Mode to, const StepMembers& now, jit::SharedState* shared_state) {
  leave_to_graphs();
  const bool rebuilt = update(now, shared_state, {}, 0);
  State& state = *state_;
  if (rebuilt)
    state.id = new_tables_id();  // no rows: the next step builds tables for its gradients
  activate(nullptr);
  for (DeviceStep& device : state.devices)
    device.step->prepare(to, device.inputs, state.hyper_params.all());
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
