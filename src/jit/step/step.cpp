#include "jitstep/jit/step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "jit/step/step_checks.h"
#include "jit/step/step_state.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// False also if only bytes between members differ, which costs a check and changes nothing.
bool same_bytes(const std::vector<StepInput>& a, const std::vector<StepInput>& b) {
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c)
  const auto differ = [&] { return std::memcmp(a.data(), b.data(), a.size() * sizeof(StepInput)); };
  return a.size() == b.size() && (a.empty() || differ() == 0);
}

}  // namespace

WorkSize Batch::size() const {
  WorkSize size{.elements = 0, .tensors = static_cast<std::int64_t>(tensors.size())};
  for (const StepTensor& tensor : tensors) size.elements += tensor.shape.elements();
  return size;
}

// Excludes inactive tensors from work items and sums.
void Step::State::exclude_inactive(const std::vector<StepInput>& now) {
  inactive.clear();  // stays empty if an upload throws
  const StepInput* own = now.data();
  for (LaunchBatch& batch : batches) {
    batch.exclude_inactive(own);
    own += batch.tensors().size();
  }
  for (SharedSum& sum : sums) sum.exclude_inactive(backend, batches, now);
  for (const StepInput& input : now) inactive.push_back(input.inactive);
  if (shared_state != nullptr) choose_shared_state_writer();
  work_is_current = true;
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
void Step::State::follow_capture() {
  if (!counter || target_mode || exchange || !work_is_current) backend.check_not_capturing();
  for (LaunchBatch& batch : batches) batch.follow_capture();
  counter->follow_capture();
  captured.emplace_back();
}

// Checks the inputs, and writes the records of a step. In most steps they are those of the last one. A mode switch
// reads pairs of HyperParams, and no gradients.
void Step::State::write_records(const std::vector<StepInput>& now, std::size_t hyper_params) {
  if (!target_mode && hyper_params == hyper_params_count && same_bytes(now, inputs)) return;
  inputs.clear();
  records.assign(now.size(), {});
  work_is_current = inactive.size() == now.size();
  std::size_t i = 0;
  for (const LaunchBatch& batch : batches)
    for (const int layout : batch.layout()) {
      const StepInput& input = now[i];
      StepRecord& record = records[i];
      check_input(i, input, *tensors[i], hyper_params, !target_mode);
      record.g = input.g;
      record.cleared = input.cleared;
      std::copy(input.inputs.begin(), input.inputs.end(), record.inputs);
      record.hyper_index = input.inactive ? -1 : input.hyper_index * (target_mode ? 2 : 1);
      record.layout = layout | (input.aligned ? kAligned : 0);
      work_is_current = work_is_current && (inactive[i] != 0) == input.inactive;
      ++i;
    }
  if (target_mode) return;
  inputs = now;
  hyper_params_count = hyper_params;
}

void Step::State::reserve_transformed(const std::vector<StepInput>& now) {
  TransformValues& transformed = device_tables().transformed;
  transformed.reserve(backend, batches, now);
  for (std::size_t i = 0; i < records.size(); ++i)
    std::copy_n(transformed.of(i).begin(), kMaxTransforms, records[i].transformed);
}

void Step::State::send(const std::vector<StepInput>& now,
                       const std::vector<HyperParams>& hyper_params) {
  if (!work_is_current) exclude_inactive(now);
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
  const int count = static_cast<int>(hyper_params.size());
  const StepRecord* own = steps.data();
  for (LaunchBatch& batch : batches) {
    batch.set_inputs(own, table.data());
    own += batch.tensors().size();
  }
  for (SharedSum& sum : sums) sum.reserve_coefficients(backend, batches, count);
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

void Step::State::check_shared_options(const std::vector<StepInput>& now,
                                       const std::vector<HyperParams>& hyper_params) const {
  if (shared_state == nullptr || hyper_params.size() < 2) return;
  const Plan* plan = nullptr;  // of the tensors that share state. They have one rule
  std::vector<bool> used(hyper_params.size());
  auto input = now.begin();
  for (const LaunchBatch& batch : batches) {
    const auto end = input + static_cast<std::ptrdiff_t>(batch.tensors().size());
    if (!batch.plan().shared_state.empty()) {
      plan = &batch.plan();
      for (; input != end; ++input)
        if (!input->inactive) used[static_cast<std::size_t>(input->hyper_index)] = true;
    }
    input = end;
  }
  if (plan != nullptr) check_same_in_groups(*plan, hyper_params, used);
}

void Step::State::prepare(const std::vector<StepInput>& now,
                          const std::vector<HyperParams>& hyper_params) {
  if (!buffers_checked)
    for (const LaunchBatch& batch : batches) check_buffers(batch.plan(), batch.tensors());
  buffers_checked = true;
  if (!target_mode) check_exchange();
  capturing = backend.is_capturing();
  if (capturing)
    follow_capture();
  else if (!captured.empty())
    throw Error("this Step belongs to a CUDA graph. Create another one for steps outside of it.");
  else
    wait_for_last_step();
  if (transforms > 0 && !target_mode) reserve_transformed(now);
  send(now, hyper_params);
  phase = Phase::prepared;
}

void Step::prepare(const std::vector<StepInput>& inputs,
                   const std::vector<HyperParams>& hyper_params) {
  State& state = this->state();
  state.phase = State::Phase::idle;
  state.target_mode.reset();
  check_counts(inputs, state.tensors, hyper_params);
  state.write_records(inputs, hyper_params.size());
  check_counters(inputs, state.tensors, hyper_params, state.shared_state,
                 state.counter.has_value());
  for (const LaunchBatch& batch : state.batches) check_scale(batch.plan(), hyper_params);
  state.check_shared_options(inputs, hyper_params);
  state.prepare(inputs, hyper_params);
}

void Step::prepare(Mode to, const std::vector<StepInput>& inputs,
                   const std::vector<HyperParams>& hyper_params) {
  State& state = this->state();
  state.phase = State::Phase::idle;
  state.target_mode = to;
  check_counts(inputs, state.tensors, hyper_params);
  state.write_records(inputs, hyper_params.size());
  // Kernels expect the HyperParams of the next step directly after those of the last step.
  std::vector<HyperParams> pairs;
  for (const HyperParams& params : hyper_params) {
    pairs.insert(pairs.end(), 2, params);
    ++pairs.back().t;
  }
  state.prepare(inputs, pairs);
}

void Step::host_transform(const HostTransform& transform) {
  State& state = this->state();
  if (state.phase != State::Phase::prepared || state.target_mode)
    throw Error("Step::host_transform() needs a prepared step. Call prepare() first.");
  state.phase = State::Phase::idle;
  try {
    for (int number = 0; number < state.transforms; ++number) {
      state.launch_sums(number);
      state.launch_host_transform(number, transform);
    }
    if (state.transforms == 0) state.launch_sums(0);
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
  if (state.target_mode) {
    for (LaunchBatch& batch : state.batches) batch.launch_mode_switch(*state.target_mode);
  } else {
    if (phase == State::Phase::prepared && state.transforms > 0)
      throw Error(
          "Step::launch() of a rule with a host transform needs its result. Call "
          "Step::host_transform() first.");
    if (phase == State::Phase::prepared) state.launch_sums(0);
    state.finish_step();
  }
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

void Step::wait_for_last_step() { state().wait_for_last_step(); }

}  // namespace jitstep::jit
