#include "emulation/step_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>

#include "jit/base/text.h"
#include "jitstep/jit/common_memory.h"
#include "jitstep/jit/state_layout.h"
#include "jitstep/jit/step.h"

namespace jitstep::emulation {
namespace {

using jit::bytes_of;
using jit::Dtype;
using jit::text;

struct TensorData {
  GuardedBuffer p, g, extra;
  std::vector<GuardedBuffer> codes = {}, meta = {};
  std::vector<std::array<GuardedBuffer, 2>> memory = {};
  jit::StepTensor tensor = {};
  std::int64_t n = 0;
  std::int64_t t = 0;
};

// How the codes of a slot are read, and the fields that lie beside them.
Elements elements_of_codes(const jit::Manifest& codec, Dtype parameter) {
  if (codec.code == "real")
    return jit::real_bytes(parameter) == 8 ? Elements::float64 : Elements::float32;
  return codec.code == "Nibble" ? Elements::nibbles : Elements::bytes;
}

Elements elements_of_fields(const std::vector<jit::Field>& fields) {
  return fields.size() == 1 && fields[0].type == "float" ? Elements::float32 : Elements::bytes;
}

}  // namespace

struct StepRun::State {
  State(const StepCase& c, const Device& device, const jit::Variant& v, Grouping g,
        const jit::Catalog& catalog)
      : case_(c),
        machine(device.machine),
        download(device.download),
        variant(v),
        grouping(g),
        options(options_of(c, catalog)),
        plan(kernel_of(c, catalog)),
        random(c.seed),
        common(jit::make_common_memory(machine, options)) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) add(c.tensors[i], static_cast<int>(i));
  }

  void add(const TensorCase& c, int id);
  void add_memory(TensorData& data, const jit::StateLayout::Memory& field);
  void bind(TensorData& data);
  void fill_parameter(TensorData& data);
  double gradient_value();
  void send_gradient(TensorData& data);
  jit::HostStage stage_for(const std::vector<jit::Batch>& batches) const;
  template <class T>
  void halve(T* values, std::size_t count) const;
  void make_step(const std::vector<TensorData*>& stepped, std::optional<jit::Mode> to);
  void one_step();
  void one_turn();
  int set_for(std::vector<HyperSet>& sets, std::int64_t t) const;
  int batch_count() const;
  int batch_of(int id) const;
  KeptBuffer kept(const TensorData& data, const GuardedBuffer& buffer, const std::string& name,
                  Elements elements, int width) const;
  void keep_slots(const TensorData& data, StepOutcome& outcome) const;
  void keep_memory(const TensorData& data, StepOutcome& outcome) const;
  void keep_common(StepOutcome& outcome) const;

  const StepCase& case_;
  jit::Machine& machine;
  Download download;
  jit::Variant variant;
  Grouping grouping;
  jit::OptionValues options;
  jit::Plan plan;
  std::mt19937_64 random;
  jit::CommonMemory common;
  std::vector<TensorData> all = {};
  int step = 0;  // the last one that was made
  int turns = 0;
};

// ---- what is stepped ---------------------------------------------------------------------------

void StepRun::State::add(const TensorCase& c, int id) {
  const jit::Shape shape = shape_of(c);
  const auto n = static_cast<std::size_t>(shape.elements());
  const auto wp = static_cast<std::size_t>(bytes_of(plan.spec.state.dtype)),
             wg = static_cast<std::size_t>(bytes_of(plan.spec.gradient)),
             shift = static_cast<std::size_t>(c.misalignment);
  const jit::StateLayout layout =
      jit::state_layout(plan, shape, jit::initial_memory(plan, options));
  const auto buffer = [&](std::int64_t bytes) {
    return GuardedBuffer(machine, static_cast<std::size_t>(bytes));
  };
  TensorData data{.p = GuardedBuffer(machine, n * wp * (c.gaps ? 2 : 1), shift * wp),
                  .g = GuardedBuffer(machine, n * wg, shift * wg),
                  .extra = buffer(layout.extra)};
  data.n = static_cast<std::int64_t>(n);
  data.tensor.shape = shape;
  data.tensor.g_strides = gradient_shape_of(c).strides;
  data.tensor.id = id;
  for (const auto& slot : layout.slots) {
    data.codes.push_back(buffer(slot.codes));
    data.meta.push_back(buffer(slot.meta));
  }
  for (const auto& field : layout.memory) add_memory(data, field);
  fill_parameter(data);
  bind(data);
  all.push_back(std::move(data));
}

void StepRun::State::add_memory(TensorData& data, const jit::StateLayout::Memory& field) {
  const std::int64_t bytes = field.entries * field.bytes;
  std::array<GuardedBuffer, 2> pair{GuardedBuffer(machine, static_cast<std::size_t>(bytes)),
                                    GuardedBuffer(machine, static_cast<std::size_t>(bytes))};
  for (auto& buffer : pair)
    for (std::int64_t at = 0; at < bytes; at += field.bytes)
      put(buffer.host() + at, field.bytes == 8 ? Dtype::float64 : Dtype::float32, field.initial);
  data.memory.push_back(std::move(pair));
}

// Sends everything but the gradient, which each step brings.
void StepRun::State::bind(TensorData& data) {
  const auto on_device = [&](const GuardedBuffer& buffer) {
    buffer.send(machine);
    return buffer.device();
  };
  data.tensor.p = on_device(data.p);
  data.tensor.extra = on_device(data.extra);
  for (std::size_t i = 0; i < data.codes.size(); ++i)
    data.tensor.slots.push_back({on_device(data.codes[i]), on_device(data.meta[i])});
  for (auto& pair : data.memory)
    data.tensor.memory.push_back({on_device(pair[0]), on_device(pair[1])});
}

void StepRun::State::fill_parameter(TensorData& data) {
  std::normal_distribution<double> normal(0, 0.5);
  const int w = bytes_of(plan.spec.state.dtype);
  for (std::int64_t i = 0; i < data.n; ++i) {
    const std::int64_t at = case_.tensors[data.tensor.id].gaps ? 2 * i : i;
    put(data.p.host() + at * w, plan.spec.state.dtype, normal(random));
  }
}

// ---- steps -------------------------------------------------------------------------------------

// Magnitudes over many decades, exact zeros, and on request what no gradient should be.
double StepRun::State::gradient_value() {
  std::uniform_real_distribution<double> uniform(0, 1);
  const double kind = uniform(random);
  if (case_.special_values && kind < 0.01)
    return kind < 0.004 ? std::nan("") : kind < 0.007 ? INFINITY : -INFINITY;
  if (case_.special_values && kind < 0.03)
    return kind < 0.02 ? -1e-40 : 1e-36;  // subnormal, and soon
  if (kind < 0.05) return 0;
  const double size = std::pow(10.0, -7 * uniform(random));
  return kind < 0.5 ? -size : size;
}

void StepRun::State::send_gradient(TensorData& data) {
  const int w = bytes_of(plan.spec.gradient);
  for (std::int64_t i = 0; i < data.n; ++i)
    put(data.g.host() + i * w, plan.spec.gradient, gradient_value());
  data.g.send(machine);
}

// Of any rule that has one: halves the values, which is exact.
jit::HostStage StepRun::State::stage_for(const std::vector<jit::Batch>& batches) const {
  if (plan.rule().host_stage.empty()) return {};
  std::vector<std::size_t> sizes;
  for (const jit::Batch& batch : batches)
    for (const jit::StepTensor& tensor : batch.tensors)
      sizes.push_back(static_cast<std::size_t>(tensor.shape.elements()));
  return [this, sizes](const std::vector<jit::StagedTensor>& tensors) {
    for (const auto& [tensor, values] : tensors)
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
  machine.upload(values, image.data(), count * sizeof(T));
}

// A step of some tensors, or their turn to a mode.
void StepRun::State::make_step(const std::vector<TensorData*>& stepped,
                               std::optional<jit::Mode> to) {
  std::vector<HyperSet> sets;
  std::vector<jit::Batch> batches(batch_count());
  std::vector<std::vector<jit::StepInput>> inputs(batch_count());
  for (const TensorData* const data : stepped) {
    const TensorCase& c = case_.tensors[data->tensor.id];
    const int batch = batch_of(data->tensor.id);
    batches[batch].tensors.push_back(data->tensor);
    inputs[batch].push_back({data->g.device(), set_for(sets, data->t), c.misalignment == 0});
  }
  std::vector<jit::Batch> used;
  std::vector<jit::StepInput> given;
  for (int i = 0; i < batch_count(); ++i) {
    if (batches[i].tensors.empty()) continue;
    used.push_back({plan, batches[i].tensors, variant});
    given.insert(given.end(), inputs[i].begin(), inputs[i].end());
  }
  jit::Step made(machine, used, &common);
  if (to)
    made.run(*to, given, sets);
  else
    made.run(given, sets, stage_for(used));
}

void StepRun::State::one_step() {
  ++step;
  std::vector<TensorData*> stepped;
  for (auto& data : all) {
    const TensorCase& c = case_.tensors[data.tensor.id];
    send_gradient(data);
    if (step < c.first_step || step == c.skipped_step) continue;
    ++data.t;
    stepped.push_back(&data);
  }
  make_step(stepped, {});
}

void StepRun::State::one_turn() {
  std::vector<TensorData*> stepped;
  for (auto& data : all)
    if (data.t > 0) stepped.push_back(&data);
  make_step(stepped, turns++ % 2 == 0 ? jit::Mode::eval : jit::Mode::train);
}

int StepRun::State::set_for(std::vector<HyperSet>& sets, std::int64_t t) const {
  for (std::size_t i = 0; i < sets.size(); ++i)
    if (sets[i].t == t) return static_cast<int>(i);
  sets.push_back(plan.at_step(options, t, 0x0123456789abcdefull));
  return static_cast<int>(sets.size()) - 1;
}

int StepRun::State::batch_count() const {
  return grouping == Grouping::kEachAlone ? static_cast<int>(all.size()) : 2;
}

int StepRun::State::batch_of(int id) const {
  if (grouping == Grouping::kEachAlone) return id;
  return grouping == Grouping::kHalves ? id % 2 : 0;
}

// ---- what they leave ---------------------------------------------------------------------------

KeptBuffer StepRun::State::kept(const TensorData& data, const GuardedBuffer& buffer,
                                const std::string& name, Elements elements, int width) const {
  KeptBuffer out{data.tensor.id, name, elements, std::max(width, 1), buffer.kept(download)};
  out.make_nans_one();
  return out;
}

void StepRun::State::keep_slots(const TensorData& data, StepOutcome& outcome) const {
  for (int i = 0; i < static_cast<int>(data.codes.size()); ++i) {
    const jit::Manifest* const codec = plan.codec(i);
    if (codec == nullptr) continue;
    const std::string& slot = plan.rule().slots[i].name;
    outcome.push_back(kept(data, data.codes[i], slot + ".codes",
                           elements_of_codes(*codec, plan.spec.state.dtype),
                           codec->code_bits(plan.spec.state.dtype) / 8));
    outcome.push_back(kept(data, data.meta[i], slot + ".meta", elements_of_fields(codec->meta),
                           codec->meta_bytes()));
  }
}

void StepRun::State::keep_memory(const TensorData& data, StepOutcome& outcome) const {
  for (std::size_t i = 0; i < data.memory.size(); ++i) {
    const int width = plan.memory[i].bytes;
    outcome.push_back(kept(data, data.memory[i][data.t & 1], "memory." + plan.memory[i].name,
                           width == 8 ? Elements::float64 : Elements::float32, width));
  }
}

void StepRun::State::keep_common(StepOutcome& outcome) const {
  for (const jit::PlannedMemory& field : plan.common) {
    KeptBuffer out{KeptBuffer::kNoTensor, "memory." + field.name, Elements::float64, 8, {}};
    out.bytes.resize(sizeof(double) + 2 * KeptBuffer::kGuard);
    download(&out.bytes[KeptBuffer::kGuard], common.now() + field.place, sizeof(double));
    out.make_nans_one();
    outcome.push_back(std::move(out));
  }
}

StepRun::StepRun(const StepCase& c, const Device& device, const jit::Variant& variant,
                 Grouping grouping, const jit::Catalog& catalog)
    : state_(new State(c, device, variant, grouping, catalog)) {}
StepRun::~StepRun() = default;

bool StepRun::step() {
  constexpr int kTurns = 3;
  State& s = *state_;
  const bool steps = s.step < s.case_.steps;
  if (!steps && (!s.plan.rule().modes || s.turns == kTurns)) return false;
  if (steps)
    s.one_step();
  else
    s.one_turn();
  return true;
}

StepOutcome StepRun::outcome() const {
  const State& s = *state_;
  const jit::KernelSpec& spec = s.plan.spec;
  StepOutcome outcome;
  for (const TensorData& data : s.all) {
    outcome.push_back(
        s.kept(data, data.p, "p", elements_of(spec.state.dtype), bytes_of(spec.state.dtype)));
    outcome.push_back(
        s.kept(data, data.g, "g", elements_of(spec.gradient), bytes_of(spec.gradient)));
    outcome.push_back(s.kept(data, data.extra, "extra",
                             s.plan.weights->extra == "float" ? Elements::float32 : Elements::bytes,
                             s.plan.weights->extra_bytes()));
    s.keep_slots(data, outcome);
    s.keep_memory(data, outcome);
  }
  s.keep_common(outcome);
  return outcome;
}

StepOutcome run_case(const StepCase& c, const Device& device, const jit::Variant& variant,
                     Grouping grouping, const jit::Catalog& catalog) {
  StepRun run(c, device, variant, grouping, catalog);
  while (run.step()) {
  }
  return run.outcome();
}

}  // namespace jitstep::emulation
