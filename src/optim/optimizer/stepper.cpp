#include "optim/optimizer/stepper.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "jit/step/step_checks.h"
#include "jitstep/jit/catalog.h"
#include "optim/optimizer/step_hyper_params.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

// A parameter when the tables were built, and its position in them.
struct TableRow {
  const StateBuffers* state;
  int revision, version;
  std::size_t device = 0, batch = 0;  // indices into State::devices and its batches
  std::size_t index = 0;              // index of its input
  jit::StepTensor tensor;

  bool is(const StepParameter& now) const {
    return state == now.state && version == now.version && revision == now.state->revision;
  }
};

// All parameters of one device.
struct DeviceStep {
  torch::Device device;
  jit::Backend* backend;
  std::vector<jit::Batch> batches = {};
  std::optional<jit::Step> step = {};
  std::vector<jit::StepInput> inputs = {};   // in the order of batches
  std::vector<std::size_t> parameters = {};  // by input: index into the step's parameters
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
  const auto index = static_cast<std::size_t>(found - items.begin());
  if (found == items.end()) items.push_back(make());
  return index;
}

}  // namespace

struct Stepper::State {
  std::vector<TableRow> rows;
  std::vector<const TableRow*> found;    // one per parameter of this step
  std::vector<std::vector<int>> row_of;  // index into rows, by group and index; -1: none
  std::vector<DeviceStep> devices;
  std::array<double*, 2> shared_state = {};  // addresses when the tables were built
  bool scaled = false;                       // the kernels divide by grad_scale
  std::vector<HyperParams> hyper_params;
  std::vector<std::vector<int>> hyper_params_of_group;  // indices of those made in this step

  // The row of a parameter. Null if there is none, or if it is out of date.
  const TableRow* find(const StepParameter& now) const;
  // Sets `found`. True if the tables have current rows of all parameters.
  bool find_all(const std::vector<StepParameter>& parameters);
  void add(TableRow row, const StepParameter& of, const jit::KernelSpec& spec);
  void assign_inputs();
};

const TableRow* Stepper::State::find(const StepParameter& now) const {
  if (rows.size() == 1) return rows[0].is(now) ? &rows[0] : nullptr;
  const auto& [group, index] = now.name;
  if (group >= row_of.size() || index >= row_of[group].size()) return nullptr;
  const int row_index = row_of[group][index];
  if (row_index < 0) return nullptr;
  const TableRow& row = rows[static_cast<std::size_t>(row_index)];
  return row.is(now) ? &row : nullptr;
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

// Adds a row to the batch of its kernel.
void Stepper::State::add(TableRow row, const StepParameter& of, const jit::KernelSpec& spec) {
  const torch::Device device = of.p->device();
  row.device = find_or_add(
      devices, [&](const DeviceStep& known) { return known.device == device; },
      [&] {
        return DeviceStep{device, as_torch_error([&] { return &backend_of(device); })};
      });
  auto& batches = devices[row.device].batches;
  row.batch = find_or_add(
      batches, [&](const jit::Batch& batch) { return batch.plan.spec == spec; },
      [&] {
        return jit::Batch{jit::resolve(spec), {}};
      });
  with_context(*of.p, of.name, [&] {
    rethrow_as_torch_error([&] { jit::check_tensors(batches[row.batch].plan, {row.tensor}); });
  });
  row.index = batches[row.batch].tensors.size();
  batches[row.batch].tensors.push_back(row.tensor);
  const auto& [group, index] = of.name;
  if (group >= row_of.size()) row_of.resize(group + 1);
  if (index >= row_of[group].size()) row_of[group].resize(index + 1, -1);
  row_of[group][index] = static_cast<int>(rows.size());
  rows.push_back(std::move(row));
}

// Numbers the inputs batch by batch.
void Stepper::State::assign_inputs() {
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
  for (TableRow& row : rows) row.index += first[row.device][row.batch];
}

namespace {

// torch's in-place operations do this, too. It tells autograd that p has changed.
void bump_version(const torch::Tensor& p) {
  if (!p.is_inference()) p.unsafeGetTensorImpl()->bump_version();
}

// Calls the transform once per group, with all of the group's parameters on the device.
void run_transform(const TransformOfGroup& transform, const std::vector<StepParameter>& parameters,
                   const DeviceStep& device, const std::vector<jit::TransformedTensor>& tensors) {
  std::map<std::size_t, std::vector<torch::Tensor>> values;
  for (const jit::TransformedTensor& one : tensors) {
    const StepParameter& parameter = parameters[device.parameters[one.tensor]];
    values[parameter.name.group].push_back(values_at(one.values, *parameter.p));
  }
  for (const auto& [group, of_group] : values) transform(group, of_group);
}

}  // namespace

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

void Stepper::prepare(const std::vector<StepParameter>& parameters,
                      const std::vector<StepParameter>& inactive, jit::SharedState* shared_state,
                      bool scaled) {
  State fresh;
  fresh.shared_state = buffers_of(shared_state);
  fresh.scaled = scaled;
  fresh.rows.reserve(parameters.size() + inactive.size());
  for (const StepParameter& one : parameters)
    fresh.add({.state = one.state,
               .revision = one.state->revision,
               .version = one.version,
               .tensor = step_tensor(*one.p, *one.state, one.grad->strides())},
              one, spec_of(one, scaled));
  for (const StepParameter& one : inactive) {
    const TableRow* const known = state_->scaled == scaled ? state_->find(one) : nullptr;
    if (known != nullptr)
      fresh.add(*known, one, state_->devices[known->device].batches[known->batch].plan.spec);
  }
  fresh.assign_inputs();
  for (DeviceStep& device : fresh.devices)
    check_no_sharing(device),
        as_torch_error([&] { device.step.emplace(*device.backend, device.batches, shared_state); });
  for (DeviceStep& device : state_->devices)
    if (device.step && !device.backend->is_capturing()) device.step->activate_step();
  *state_ = std::move(fresh);
}

// After a capture its graph owns the tables. Steps outside the capture start with new ones.
void Stepper::leave_to_graphs() {
  const auto& devices = state_->devices;
  const bool left = std::any_of(devices.begin(), devices.end(), [](const DeviceStep& device) {
    return device.step && device.step->is_captured() && !device.backend->is_capturing();
  });
  if (left) captured_.push_back(std::exchange(state_, std::make_unique<State>()));
}

// Updates tables and inputs for the parameters. `ahead`: 0 for the HyperParams of the last step, 1 for those of the
// next one. True if the tables are new.
bool Stepper::update(const StepMembers& now, jit::SharedState* shared_state,
                     const StepExtras& extras, int ahead) {
  State& state = *state_;
  const auto& [parameters, inactive, groups] = now;
  const bool scaled = extras.grad_scale.defined();
  const bool known = state.shared_state == buffers_of(shared_state) && state.scaled == scaled &&
                     state.find_all(parameters);
  if (!known) {
    prepare(parameters, inactive, shared_state, scaled);
    state.find_all(parameters);
  }
  state.hyper_params.clear();
  state.hyper_params_of_group.resize(groups.size());
  for (auto& made : state.hyper_params_of_group) made.clear();
  for (DeviceStep& device : state.devices)
    std::fill(device.inputs.begin(), device.inputs.end(), jit::StepInput{.inactive = true});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const StepParameter& parameter = parameters[i];
    const TableRow& row = *state.found[i];
    DeviceStep& device = state.devices[row.device];
    void* const cleared = extras.clears ? parameter.grad->mutable_data_ptr() : nullptr;
    const void* g = parameter.grad->const_data_ptr();
    const StepCount& t = parameter.state->t;
    const int hyper_index =
        hyper_index_for(state.hyper_params, state.hyper_params_of_group[parameter.name.group],
                        groups[parameter.name.group], t.counted() + ahead, t.step_offset());
    device.inputs[row.index] = {g, hyper_index, device.device.is_cpu() || is_aligned(row.tensor, g),
                                cleared};
    device.parameters[row.index] = i;
  }
  for (HyperParams& one : state.hyper_params) {
    one.grad_scale = address(extras.grad_scale);
    one.found_inf = address(extras.found_inf);
  }
  return !known;
}

// A step with a configuration that the tuner tries or has chosen. Null: use the default step.
jit::Step* Stepper::tuned_step(bool tables_are_new, jit::SharedState* shared_state,
                               const StepExtras& extras) {
  if (!tuner_ || state_->devices.size() != 1) return nullptr;
  const DeviceStep& device = state_->devices[0];
  const TunedTables tables{*device.backend, device.batches, shared_state,
                           [at = device.device](void* to, const void* from, std::size_t bytes) {
                             download(at, to, from, bytes);
                           }};
  if (tables_are_new) activate(nullptr), tuner_->begin(tables, hardware_of(device.device));
  if (extras.capturable) return nullptr;  // a graph repeats the step with tables that it owns
  if (device.backend->is_capturing()) return nullptr;  // the default step throws
  return tuner_->choose(tables, device.inputs, state_->hyper_params);
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
    step_on(device).prepare(device.inputs, state.hyper_params);
  if (is_trial) wait_for_all(state.devices[0].device);
  const auto start = std::chrono::steady_clock::now();
  if (transform)
    for (DeviceStep& device : state.devices)
      step_on(device).host_transform([&](const std::vector<jit::TransformedTensor>& tensors) {
        run_transform(transform, now.parameters, device, tensors);
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
  // Must be last, because it may call the user's TuningAgreement.
  if (is_trial && !is_skipped(extras)) tuner_->record(seconds.count());
}

void Stepper::switch_mode(jit::Mode to, const StepMembers& now, jit::SharedState* shared_state) {
  leave_to_graphs();
  const bool rebuilt = update(now, shared_state, {}, 0);
  State& state = *state_;
  if (rebuilt)  // these tables have no gradients, so the next step must build its own
    for (TableRow& row : state.rows) row.version = -1;
  activate(nullptr);
  for (DeviceStep& device : state.devices)
    device.step->prepare(to, device.inputs, state.hyper_params);
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
      for (std::size_t g = 0; g < state_->row_of.size(); ++g)
        for (std::size_t i = 0; i < state_->row_of[g].size(); ++i) {
          if (const int row_index = state_->row_of[g][i]; row_index >= 0)
            if (const TableRow& one = state_->rows[static_cast<std::size_t>(row_index)];
                one.device == d && one.batch == b)
              report.parameters.push_back({g, i});
        }
      add_kernel(reports, std::move(report));
    }
  }
  return reports;
}

}  // namespace jitstep
