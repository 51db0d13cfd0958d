#include "jitstep/jit/step.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "jit/base/args.h"
#include "jit/codegen/shared_sums.h"
#include "jit/step/check_rule_contract.h"
#include "jit/step/launch_batch.h"
#include "jit/step/shared_sum.h"
#include "jit/step/step_checks.h"
#include "jit/step/step_counter.h"
#include "jit/step/transform_values.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// The device copies of a step's inputs.
struct DeviceTables {
  DeviceTable<StepRecord> steps = {};
  DeviceTable<HyperParams> hyper_params = {};
  TransformValues transformed = {};
};

}  // namespace

WorkSize Batch::size() const {
  WorkSize size{.elements = 0, .tensors = static_cast<std::int64_t>(tensors.size())};
  for (const StepTensor& tensor : tensors) size.elements += tensor.shape.elements();
  return size;
}

struct Step::State {
  // Which launches of the step remain.
  enum class Phase { idle, prepared, reduced };

  Backend& backend;
  std::vector<ConfigChoice> choices = {};  // one per batch
  std::vector<LaunchBatch> batches = {};
  std::vector<SharedSum> sums = {};
  std::vector<const TensorRecord*> tensors = {};  // of all batches
  std::vector<char> inactive = {};       // tensors that the work items exclude; empty: unknown
  std::vector<StepRecord> records = {};  // of all tensors
  DeviceTables live = {};
  std::deque<DeviceTables> captured = {};   // one per captured step; each replay uploads it again
  std::optional<StepCounter> counter = {};  // if the device counts steps
  bool capturing = false;
  SharedState* shared_state = nullptr;  // null if the caller gave none
  // With shared state: the HyperParams of a step, with the global step.
  std::vector<HyperParams> numbered_params = {};
  int passes = 0;
  bool has_host_transform = false;
  Phase phase = Phase::idle;
  bool has_writer = false;               // whether any active tensor has elements
  bool has_aux_state = false;            // whether check_aux_state() has succeeded
  std::optional<Mode> target_mode = {};  // of a prepared mode switch; empty: a step
  Exchange exchange = {};                // of partial sums, for parts of tensors

  void choose_shared_state_writer();
  void add_batches(const std::vector<Batch>& given);
  bool same_inactive_tensors(const std::vector<StepInput>& inputs) const;
  void choose(const std::vector<StepInput>& inputs);
  void wait_for_last_step();
  void follow_capture(const std::vector<StepInput>& inputs);
  DeviceTables& device_tables() { return capturing ? captured.back() : live; }
  void send(const std::vector<StepInput>& inputs, const std::vector<HyperParams>& hyper_params);
  void prepare(const std::vector<StepInput>& inputs, const std::vector<HyperParams>& hyper_params);
  std::vector<PartialSums> partials_of(int pass, bool after_transform) const;
  void check_exchange() const;
  void launch_sums(bool after_transform);
  void launch_host_transform(const HostTransform& transform);
  void finish_step();
};

namespace {

ConfigChoice choice_for(Backend& backend, const Plan& plan, const Batch& batch) {
  ConfigChoice choice = batch.config
                            ? ConfigChoice{.config = *batch.config, .why = "set by the program"}
                            : backend.choose_config(plan, batch.size());
  // The steps of all parts need the same partial sums, whatever their configurations.
  const auto is_part = [](const StepTensor& tensor) { return tensor.whole > 0; };
  if (std::any_of(batch.tensors.begin(), batch.tensors.end(), is_part))
    choice.config.leaves_per_item = std::max(choice.config.leaves_per_item, kPartLeaves);
  return choice;
}

// Compiles missing kernels in parallel.
std::vector<Unit> units_of(Backend& backend, const std::vector<Plan>& plans,
                           const std::vector<ConfigChoice>& choices) {
  if (Engine* const checker = backend.contract_checker())
    for (const Plan& plan : plans) check_rule_contract(plan, *checker);
  std::vector<Unit> units;
  std::vector<NamedText> texts;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    units.push_back(unit(plans[i], choices[i].config, backend.target()));
    texts.push_back({units.back().text, units.back().name});
  }
  if (texts.size() > 1) backend.build_all(texts);
  return units;
}

}  // namespace

void Step::State::add_batches(const std::vector<Batch>& given) {
  const std::vector<Plan> plans = plans_of(given);
  check_shared_state(plans, shared_state);
  for (std::size_t i = 0; i < given.size(); ++i)
    choices.push_back(choice_for(backend, plans[i], given[i]));
  const std::vector<Unit> units = units_of(backend, plans, choices);
  batches.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    batches.emplace_back(backend, plans[i], choices[i].config, units[i], given[i].tensors,
                         shared_state);
    passes = std::max(passes, plans[i].passes);
    has_host_transform = has_host_transform || !plans[i].rule().host_transform.empty();
    for (const TensorRecord& tensor : batches.back().tensors()) tensors.push_back(&tensor);
  }
  sums = shared_sums(backend, batches);
  inactive.assign(tensors.size(), false);
  if (shared_state != nullptr) choose_shared_state_writer();
}

// Selects the active tensor of lowest id that has elements, here or in another part.
void Step::State::choose_shared_state_writer() {
  LaunchBatch* writer_batch = nullptr;
  int index = -1, lowest = std::numeric_limits<int>::max();
  const char* skipped = inactive.data();
  for (LaunchBatch& batch : batches) {
    batch.set_shared_state_writer(-1);
    for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
      const TensorRecord& tensor = batch.tensors()[i];
      if (*skipped++ || batch.elements(i) == 0 || tensor.id >= lowest) continue;
      writer_batch = &batch;
      index = static_cast<int>(i);
      lowest = tensor.id;
    }
  }
  if (writer_batch != nullptr) writer_batch->set_shared_state_writer(index);
  has_writer = writer_batch != nullptr;
}

bool Step::State::same_inactive_tensors(const std::vector<StepInput>& inputs) const {
  const auto same = [](char skipped, const StepInput& input) { return skipped == input.inactive; };
  return std::equal(inactive.begin(), inactive.end(), inputs.begin(), inputs.end(), same);
}

// Excludes inactive tensors from work items and sums.
void Step::State::choose(const std::vector<StepInput>& inputs) {
  if (same_inactive_tensors(inputs)) return;
  inactive.clear();  // stays empty if an upload throws
  const StepInput* own = inputs.data();
  for (LaunchBatch& batch : batches) {
    batch.choose(own);
    own += batch.tensors().size();
  }
  for (SharedSum& sum : sums) sum.choose(backend, batches, inputs);
  for (const StepInput& input : inputs) inactive.push_back(input.inactive);
  if (shared_state != nullptr) choose_shared_state_writer();
}

void Step::State::wait_for_last_step() {
  bool other_stream = false;
  for (LaunchBatch& batch : batches) other_stream |= batch.wait_for_last_step();
  if (counter) other_stream |= counter->wait_for_last_step();
  if (!other_stream) return;
  live.steps.record_stream(backend);
  live.hyper_params.record_stream(backend);
  for (const SharedSum& sum : sums) sum.record_stream(backend);
}

// A captured graph reuses the current buffers and work lists, so the captured step must have the same active tensors as
// the previous one.
void Step::State::follow_capture(const std::vector<StepInput>& inputs) {
  if (!counter || target_mode || exchange || !same_inactive_tensors(inputs))
    backend.refuse_capture();
  for (LaunchBatch& batch : batches) batch.follow_capture();
  counter->follow_capture();
  captured.emplace_back();
}

void Step::State::send(const std::vector<StepInput>& inputs,
                       const std::vector<HyperParams>& hyper_params) {
  choose(inputs);
  records.clear();
  for (const LaunchBatch& batch : batches)
    for (const int layout : batch.layout()) {
      const StepInput& input = inputs[records.size()];
      void* const values = has_host_transform && !target_mode
                               ? device_tables().transformed.all()[records.size()]
                               : nullptr;
      records.push_back({.g = input.g,
                         .cleared = input.cleared,
                         .transformed = values,
                         .inputs = {},
                         .hyper_index = input.inactive ? -1 : input.hyper_index,
                         .layout = layout | (input.aligned ? kAligned : 0)});
      std::copy(input.inputs.begin(), input.inputs.end(), records.back().inputs);
    }
  auto& steps = device_tables().steps;
  auto& table = device_tables().hyper_params;
  steps.send(backend, records);
  if (shared_state != nullptr) {
    numbered_params = hyper_params;
    for (HyperParams& params : numbered_params) {
      params.global_step = shared_state->steps + (target_mode ? 0 : 1);
      params.shared_step_offset = shared_state->step_offset;
    }
  }
  table.send(backend, shared_state != nullptr ? numbered_params : hyper_params);
  const int hyper_params_count = static_cast<int>(hyper_params.size());
  const StepRecord* own = steps.data();
  for (LaunchBatch& batch : batches) {
    batch.set_inputs(own, table.data(), hyper_params_count);
    own += batch.tensors().size();
  }
  for (SharedSum& sum : sums) sum.reserve_coefficients(backend, batches, hyper_params_count);
}

Step::Step(Backend& backend, const std::vector<Batch>& batches, SharedState* shared_state)
    : state_(new State{.backend = backend, .shared_state = shared_state}) {
  state_->add_batches(batches);
}

Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

Step::State& Step::state() const {
  if (!state_) throw Error("this Step was moved from. Use the Step that it was moved to.");
  return *state_;
}

void Step::count_on_device(bool on) {
  State& state = this->state();
  if (!on)
    state.counter.reset();
  else if (!state.counter)
    state.counter.emplace(state.backend);
}

void Step::set_exchange(Exchange exchange) { state().exchange = std::move(exchange); }

bool Step::is_captured() const { return !state().captured.empty(); }

std::size_t Step::size() const { return state().tensors.size(); }

const Kernel& Step::kernel(std::size_t batch) const { return state().batches.at(batch).kernel(); }

const ConfigChoice& Step::choice(std::size_t batch) const { return state().choices.at(batch); }

void Step::State::prepare(const std::vector<StepInput>& inputs,
                          const std::vector<HyperParams>& hyper_params) {
  if (!has_aux_state)
    for (const LaunchBatch& batch : batches) check_aux_state(batch.plan(), batch.tensors());
  has_aux_state = true;
  if (!target_mode) check_exchange();
  capturing = backend.is_capturing();
  if (capturing)
    follow_capture(inputs);
  else if (!captured.empty())
    throw Error("this Step belongs to a CUDA graph. Create another one for steps outside of it.");
  else
    wait_for_last_step();
  if (has_host_transform && !target_mode)
    device_tables().transformed.reserve(backend, batches, inputs);
  send(inputs, hyper_params);
  phase = Phase::prepared;
}

// The sums of a pass that other parts have terms of, in the order of ids and then of reductions.
std::vector<PartialSums> Step::State::partials_of(int pass, bool after_transform) const {
  std::vector<PartialSums> partials;
  const char* skipped = inactive.data();
  for (const LaunchBatch& batch : batches)
    for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
      const TensorRecord& tensor = batch.tensors()[i];
      if (*skipped++ || !batch.is_part(i) || batch.is_after_transform(pass) != after_transform)
        continue;
      for (const ResolvedReduction& r : batch.plan().reductions) {
        if (r.pass != pass || r.reduction_layout != 0) continue;
        const ReductionLayout& layout = tensor.reduction_layouts[0];
        partials.push_back({tensor.id,
                            batch.reduction(r.number).partials + layout.first_partial * r.terms,
                            layout.leaves >> layout.log2_leaves, r.terms,
                            std::int64_t{kLeaf} << layout.log2_leaves});
      }
    }
  std::stable_sort(partials.begin(), partials.end(),
                   [](const PartialSums& a, const PartialSums& b) { return a.id < b.id; });
  return partials;
}

void Step::State::check_exchange() const {
  const auto sums_parts = [](const LaunchBatch& batch) {
    return batch.has_parts() && batch.plan().passes > 0;
  };
  if (!exchange && std::any_of(batches.begin(), batches.end(), sums_parts))
    throw Error(
        "cannot step parts of tensors: the kernels need sums over whole tensors. Call "
        "Step::set_exchange() first.");
}

// Launches the passes of each batch before its host transform, or after it. Batches that share a sum compute it in the
// same pass, and all of them before their transforms or all after.
void Step::State::launch_sums(bool after_transform) {
  for (int pass = 0; pass < passes; ++pass) {
    for (LaunchBatch& batch : batches)
      if (batch.is_after_transform(pass) == after_transform) batch.launch_partials(pass);
    const auto partials = partials_of(pass, after_transform);
    if (!partials.empty()) exchange(partials);
    for (LaunchBatch& batch : batches)
      if (batch.is_after_transform(pass) == after_transform) batch.launch_finalize(pass);
  }
}

void Step::State::launch_host_transform(const HostTransform& transform) {
  for (LaunchBatch& batch : batches) batch.launch_host_transform();
  std::vector<TransformedTensor> transformed;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
    if (void* const values = device_tables().transformed.all()[tensor])
      transformed.push_back({tensor, values});
  transform(transformed);
}

void Step::State::finish_step() {
  if (has_host_transform) launch_sums(true);
  for (LaunchBatch& batch : batches) batch.launch_apply();
  if (!capturing) live.transformed.release();
  if (counter) {
    counter->launch(device_tables().steps.data(), records.size(),
                    device_tables().hyper_params.data(), has_writer);
  } else if (has_writer) {
    ++shared_state->steps;
  }
}

void Step::prepare(const std::vector<StepInput>& inputs,
                   const std::vector<HyperParams>& hyper_params) {
  State& state = this->state();
  state.phase = State::Phase::idle;
  check_inputs(inputs, state.tensors, hyper_params);
  check_gradients(inputs, state.tensors);
  check_counters(inputs, state.tensors, hyper_params, state.shared_state,
                 state.counter.has_value());
  for (const LaunchBatch& batch : state.batches) check_scale(batch.plan(), hyper_params);
  state.target_mode.reset();
  state.prepare(inputs, hyper_params);
}

void Step::prepare(Mode to, const std::vector<StepInput>& inputs,
                   const std::vector<HyperParams>& hyper_params) {
  State& state = this->state();
  state.phase = State::Phase::idle;
  check_inputs(inputs, state.tensors, hyper_params);
  // Kernels expect the HyperParams of the next step directly after those of the last step.
  std::vector<StepInput> paired = inputs;
  for (StepInput& input : paired) input.hyper_index *= 2;
  std::vector<HyperParams> pairs;
  for (const HyperParams& params : hyper_params) {
    pairs.insert(pairs.end(), 2, params);
    ++pairs.back().t;
  }
  state.target_mode = to;
  state.prepare(paired, pairs);
}

void Step::host_transform(const HostTransform& transform) {
  State& state = this->state();
  if (state.phase != State::Phase::prepared || state.target_mode)
    throw Error("Step::host_transform() needs a prepared step. Call prepare() first.");
  state.phase = State::Phase::idle;
  try {
    state.launch_sums(false);
    if (state.has_host_transform) state.launch_host_transform(transform);
  } catch (...) {
    state.live.transformed.release();
    throw;
  }
  state.phase = State::Phase::reduced;
}

void Step::launch() {
  State& state = this->state();
  const State::Phase phase = std::exchange(state.phase, State::Phase::idle);
  if (phase == State::Phase::idle)
    throw Error("Step::launch() needs a prepared step. Call prepare() first.");
  if (phase == State::Phase::prepared && !state.target_mode) {
    if (state.has_host_transform)
      throw Error(
          "Step::launch() of a rule with a host transform needs its result. Call "
          "Step::host_transform() first.");
    state.launch_sums(false);
  }
  if (!state.target_mode) state.finish_step();
  for (LaunchBatch& batch : state.batches)
    if (state.target_mode) batch.launch_mode_switch(*state.target_mode);
  if (state.capturing) return;
  for (LaunchBatch& batch : state.batches) batch.record_step();
  if (state.counter) state.counter->record_step();
}

void Step::run(const std::vector<StepInput>& inputs, const std::vector<HyperParams>& hyper_params,
               const HostTransform& transform) {
  prepare(inputs, hyper_params);
  if (transform) this->host_transform(transform);
  launch();
}

void Step::run(Mode to, const std::vector<StepInput>& inputs,
               const std::vector<HyperParams>& hyper_params) {
  prepare(to, inputs, hyper_params);
  launch();
}

void Step::activate_step() { state().wait_for_last_step(); }

}  // namespace jitstep::jit
