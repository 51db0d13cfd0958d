#include "emulation/step_run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "emulation/tensor_data.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::emulation {
namespace {

using jit::bytes_of;
using jit::Dtype;

}  // namespace

struct StepRun::State {
  static constexpr int64 kBase = 1;  // the host's step count, if the device counts steps

  State(const StepCase& c, const Device& device, const jit::KernelConfig& v, Grouping g,
        const jit::Catalog& catalog)
      : case_(c),
        backend(device.backend),
        download(device.download),
        graphs(device.graphs),
        config(v),
        grouping(g),
        options(options_of(c, catalog)),
        plan(kernel_of(c, catalog)),
        random(c.seed),
        shared_state(jit::make_shared_state(backend, options)) {
    if (c.grad_scale != 0) grad_scale = on_device(backend, static_cast<float>(c.grad_scale));
    if (!c.refused.empty()) found_inf = on_device(backend, 0.0f);
    if (counts()) {
      shared_step_offset = on_device(backend, int64{0});
      shared_state.step_offset = static_cast<int64*>(shared_step_offset.get());
    }
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
      all.push_back(make_tensor(backend, plan, options, c.tensors[i], static_cast<int>(i), random));
      if (counts()) all.back().step_offset = on_device(backend, is_captured() ? kBase : int64{0});
    }
  }

  bool is_captured() const { return graphs.capture != nullptr; }
  bool counts() const { return found_inf != nullptr || is_captured(); }
  double gradient_value();
  void send_gradient(TensorData& data, bool refused);
  void send_inputs(TensorData& data);
  jit::HostTransform transform_for(const std::vector<jit::Batch>& batches) const;
  template <class T>
  void halve(T* values, std::size_t count) const;
  void make_step(const std::vector<TensorData*>& stepped, std::optional<jit::Mode> to);
  bool is_refused(int number) const;
  void one_step();
  void try_step(int number, bool refused);
  void one_mode_switch();
  void repeat_step(const std::vector<jit::Batch>& batches,
                   const std::vector<jit::StepInput>& inputs,
                   const std::vector<HyperParams>& hyper_params);
  int hyper_index_for(std::vector<HyperParams>& hyper_params, const TensorData& data) const;
  int batch_count() const;
  int batch_of(int id) const;
  StoredBuffer stored(const TensorData& data, const GuardedBuffer& buffer, const std::string& name,
                      Elements elements, int width) const;
  void store_slots(const TensorData& data, StepOutcome& outcome) const;
  void store_aux_state(const TensorData& data, StepOutcome& outcome) const;
  void store_shared_state(StepOutcome& outcome) const;

  const StepCase& case_;
  jit::Backend& backend;
  Download download;
  Graphs graphs;
  jit::KernelConfig config;
  Grouping grouping;
  jit::OptionValues options;
  jit::Plan plan;
  std::mt19937_64 random;
  jit::SharedState shared_state;
  std::shared_ptr<void> grad_scale = {}, found_inf = {}, shared_step_offset = {};  // null: not used
  std::vector<TensorData> all = {};
  int step = 0;  // the last step that was run
  int mode_switches = 0;
  bool switches_mode = false;              // whether a mode switch is running, not a step
  std::optional<jit::Step> repeated = {};  // the step that a graph repeats
};

// ---- steps -------------------------------------------------------------------------------------

// Magnitudes over seven decades, exact zeros, and on request NaN, infinities and subnormal numbers.
double StepRun::State::gradient_value() {
  std::uniform_real_distribution<double> uniform(0, 1);
  const double kind = uniform(random);
  if (case_.special_values && kind < 0.01)
    return kind < 0.004 ? std::nan("") : kind < 0.007 ? INFINITY : -INFINITY;
  if (case_.special_values && kind < 0.03)
    return kind < 0.02 ? -1e-40 : 1e-36;  // subnormal, and near the subnormal range
  if (kind < 0.05) return 0;
  const double size = std::pow(10.0, -7 * uniform(random));
  return kind < 0.5 ? -size : size;
}

// A skipped step must not advance `random`, so that the other steps get the same gradients without it.
void StepRun::State::send_gradient(TensorData& data, bool refused) {
  const int w = bytes_of(plan.spec.gradient);
  for (std::int64_t i = 0; i < data.n; ++i)
    put(data.g.host() + i * w, plan.spec.gradient, refused ? INFINITY : gradient_value());
  data.g.send(backend);
}

// Values of all inputs. They are negative, too.
void StepRun::State::send_inputs(TensorData& data) {
  const Dtype real = jit::real_bytes(plan.spec.state.dtype) == 8 ? Dtype::float64 : Dtype::float32;
  for (GuardedBuffer& input : data.inputs) {
    for (std::int64_t i = 0; i < data.n; ++i)
      put(input.host() + i * bytes_of(real), real, gradient_value());
    input.send(backend);
  }
}

// The host transform of the run, for any rule that declares one. It halves the values, which is exact.
jit::HostTransform StepRun::State::transform_for(const std::vector<jit::Batch>& batches) const {
  if (plan.rule().transforms.empty()) return {};
  std::vector<std::size_t> sizes;
  for (const jit::Batch& batch : batches)
    for (const jit::StepTensor& tensor : batch.tensors)
      sizes.push_back(static_cast<std::size_t>(tensor.shape.elements()));
  return [this, sizes](const std::vector<jit::TransformedTensor>& tensors) {
    for (const auto& [tensor, values, number] : tensors)
      if (jit::real_bytes(plan.spec.state.dtype) == 8)
        halve(static_cast<double*>(values), sizes[tensor]);
      else
        halve(static_cast<float*>(values), sizes[tensor]);
  };
}

template <class T>
void StepRun::State::halve(T* values, std::size_t count) const {
  std::vector<T> image(count);
  download(image.data(), values, count * sizeof(T));
  for (T& x : image) x /= 2;
  backend.upload(values, image.data(), count * sizeof(T));
}

// Runs a step of some tensors or, with `to`, a mode switch.
void StepRun::State::make_step(const std::vector<TensorData*>& stepped,
                               std::optional<jit::Mode> to) {
  switches_mode = to.has_value();
  std::vector<HyperParams> hyper_params;
  std::vector<jit::Batch> batches(batch_count());
  std::vector<std::vector<jit::StepInput>> inputs(batch_count());
  for (const TensorData* const data : stepped) {
    const TensorCase& c = case_.tensors[data->tensor.id];
    const int batch = batch_of(data->tensor.id);
    batches[batch].tensors.push_back(data->tensor);
    inputs[batch].push_back({.g = data->g.device(),
                             .hyper_index = hyper_index_for(hyper_params, *data),
                             .aligned = c.misalignment == 0,
                             .cleared = case_.clears ? data->g.device() : nullptr});
    for (std::size_t i = 0; i < data->inputs.size(); ++i)
      inputs[batch].back().inputs[i] = data->inputs[i].device();
  }
  std::vector<jit::Batch> used;
  std::vector<jit::StepInput> given;
  for (int i = 0; i < batch_count(); ++i) {
    if (batches[i].tensors.empty()) continue;
    used.push_back({plan, batches[i].tensors, config});
    given.insert(given.end(), inputs[i].begin(), inputs[i].end());
  }
  if (is_captured() && !to) return repeat_step(used, given, hyper_params);
  jit::Step current(backend, used, &shared_state);
  if (to)
    current.run(*to, given, hyper_params);
  else
    current.run(given, hyper_params, transform_for(used));
}

// Runs the first step, captures the second one, and replays it from then on.
void StepRun::State::repeat_step(const std::vector<jit::Batch>& batches,
                                 const std::vector<jit::StepInput>& inputs,
                                 const std::vector<HyperParams>& hyper_params) {
  const auto run = [&] { repeated->run(inputs, hyper_params, transform_for(batches)); };
  if (!repeated) {
    repeated.emplace(backend, batches, &shared_state);
    repeated->count_on_device();
    return run();
  }
  if (!repeated->is_captured()) graphs.capture(run);
  graphs.replay();
}

bool StepRun::State::is_refused(int number) const {
  return std::find(case_.refused.begin(), case_.refused.end(), number) != case_.refused.end();
}

void StepRun::State::one_step() {
  ++step;
  if (is_refused(step)) try_step(step, true);
  try_step(step, false);
  if (step == case_.steps && is_refused(step + 1)) try_step(step + 1, true);
}

void StepRun::State::try_step(int number, bool refused) {
  std::vector<TensorData*> stepped;
  for (auto& data : all) {
    const TensorCase& c = case_.tensors[data.tensor.id];
    send_gradient(data, refused);
    if (!refused) send_inputs(data);
    if (number < c.first_step || number == c.skipped_step) continue;
    ++data.counted;
    if (!refused) ++data.t;
    stepped.push_back(&data);
  }
  const float found = refused ? 1.0f : 0.0f;
  if (found_inf) backend.upload(found_inf.get(), &found, sizeof found);
  make_step(stepped, {});
}

void StepRun::State::one_mode_switch() {
  std::vector<TensorData*> stepped;
  for (auto& data : all)
    if (data.t > 0) stepped.push_back(&data);
  make_step(stepped, mode_switches++ % 2 == 0 ? jit::Mode::eval : jit::Mode::train);
}

int StepRun::State::hyper_index_for(std::vector<HyperParams>& hyper_params,
                                    const TensorData& data) const {
  for (std::size_t i = 0; !counts() && i < hyper_params.size(); ++i)
    if (hyper_params[i].t == data.counted) return static_cast<int>(i);
  const std::int64_t t = is_captured() ? kBase + (switches_mode ? 0 : 1) : data.counted;
  hyper_params.push_back(plan.at_step(options, t, 0x0123456789abcdefull));
  hyper_params.back().grad_scale = static_cast<const float*>(grad_scale.get());
  hyper_params.back().found_inf = static_cast<const float*>(found_inf.get());
  hyper_params.back().step_offset = static_cast<int64*>(data.step_offset.get());
  return static_cast<int>(hyper_params.size()) - 1;
}

int StepRun::State::batch_count() const {
  return grouping == Grouping::kEachAlone ? static_cast<int>(all.size()) : 2;
}

int StepRun::State::batch_of(int id) const {
  if (grouping == Grouping::kEachAlone) return id;
  return grouping == Grouping::kHalves ? id % 2 : 0;
}

// ---- results -----------------------------------------------------------------------------------

StoredBuffer StepRun::State::stored(const TensorData& data, const GuardedBuffer& buffer,
                                    const std::string& name, Elements elements, int width) const {
  StoredBuffer out{data.tensor.id, name, elements, std::max(width, 1), {}};
  out.bytes = buffer.content(download, jit::str_cat("tensor ", out.tensor, ", ", name));
  out.canonicalize_nans();
  return out;
}

void StepRun::State::store_slots(const TensorData& data, StepOutcome& outcome) const {
  for (int i = 0; i < static_cast<int>(data.codes.size()); ++i) {
    const jit::Manifest* const codec = plan.codec(i);
    if (codec == nullptr) continue;
    const std::string& slot = plan.rule().slots[i].name;
    outcome.push_back(stored(data, data.codes[i], slot + ".codes",
                             elements_of_codes(*codec, plan.spec.state.dtype),
                             codec->code_bits(plan.spec.state.dtype) / 8));
    outcome.push_back(stored(data, data.meta[i], slot + ".meta", elements_of_fields(codec->meta),
                             codec->meta_bytes()));
  }
}

void StepRun::State::store_aux_state(const TensorData& data, StepOutcome& outcome) const {
  for (std::size_t i = 0; i < data.aux_state.size(); ++i) {
    const int width = plan.aux_state[i].bytes;
    outcome.push_back(stored(data, data.aux_state[i][data.t & 1],
                             "aux_state." + plan.aux_state[i].name,
                             width == 8 ? Elements::float64 : Elements::float32, width));
  }
}

void StepRun::State::store_shared_state(StepOutcome& outcome) const {
  int64 step_offset = 0;
  if (shared_state.step_offset != nullptr)
    download(&step_offset, shared_state.step_offset, sizeof step_offset);
  const double* const now = shared_state.buffers[(shared_state.steps - step_offset) & 1];
  for (const jit::ResolvedAuxState& field : plan.shared_state) {
    StoredBuffer out{StoredBuffer::kNoTensor, "aux_state." + field.name, Elements::float64, 8, {}};
    out.bytes.resize(sizeof(double) + 2 * StoredBuffer::kGuard);
    download(&out.bytes[StoredBuffer::kGuard], now + field.index, sizeof(double));
    out.canonicalize_nans();
    outcome.push_back(std::move(out));
  }
}

StepRun::StepRun(const StepCase& c, const Device& device, const jit::KernelConfig& config,
                 Grouping grouping, const jit::Catalog& catalog)
    : state_(new State(c, device, config, grouping, catalog)) {}
StepRun::~StepRun() = default;

bool StepRun::step() {
  constexpr int kModeSwitches = 3;
  State& s = *state_;
  const bool steps = s.step < s.case_.steps;
  if (!steps && (!s.plan.rule().modes || s.mode_switches == kModeSwitches)) return false;
  if (steps)
    s.one_step();
  else
    s.one_mode_switch();
  return true;
}

StepOutcome StepRun::outcome() const {
  const State& s = *state_;
  const jit::KernelSpec& spec = s.plan.spec;
  StepOutcome outcome;
  for (const TensorData& data : s.all) {
    outcome.push_back(
        s.stored(data, data.p, "p", buffer_type_of(spec.state.dtype), bytes_of(spec.state.dtype)));
    outcome.push_back(
        s.stored(data, data.g, "g", buffer_type_of(spec.gradient), bytes_of(spec.gradient)));
    outcome.push_back(
        s.stored(data, data.residual, "residual",
                 s.plan.weights->residual == "float" ? Elements::float32 : Elements::bytes,
                 s.plan.weights->residual_bytes()));
    s.store_slots(data, outcome);
    s.store_aux_state(data, outcome);
  }
  s.store_shared_state(outcome);
  return outcome;
}

StepOutcome run_case(const StepCase& c, const Device& device, const jit::KernelConfig& config,
                     Grouping grouping, const jit::Catalog& catalog) {
  StepRun run(c, device, config, grouping, catalog);
  while (run.step()) {
  }
  return run.outcome();
}

}  // namespace jitstep::emulation
