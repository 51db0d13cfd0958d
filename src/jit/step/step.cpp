#include "jitstep/jit/step.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "jit/codegen/shared_sums.h"
#include "jit/step/hold_to_contract.h"
#include "jit/step/launch_batch.h"
#include "jit/step/shared_sum.h"
#include "jit/step/stage_values.h"
#include "jit/step/step_checks.h"
#include "jit/step/step_counter.h"
#include "jit/step/variant_chooser.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// What a step is given, as the device has it.
struct Given {
  DeviceTable<StepRecord> steps = {};
  DeviceTable<HyperSet> sets = {};
  StageValues staged = {};
};

}  // namespace

struct Step::State {
  // What is left to be launched.
  enum class Due { nothing, everything, apply };

  Machine& machine;
  std::vector<VariantChoice> choices = {};  // of the batches
  std::vector<LaunchBatch> batches = {};
  std::vector<SharedSum> sums = {};
  std::vector<const TensorRecord*> tensors = {};  // of all batches
  std::vector<char> resting = {};                 // whom the items leave out; empty: not known
  std::vector<StepRecord> records = {};           // of all tensors
  Given usual = {};
  std::deque<Given> captured = {};  // of the steps that graphs repeat, which send them again
  std::optional<StepCounter> counter = {};  // where the device counts
  bool capturing = false;
  CommonMemory* common = nullptr;       // where a rule keeps some
  std::vector<HyperSet> numbered = {};  // then: a step's sets, with the number all tensors count
  int passes = 0;
  bool has_stage = false;
  Due due = Due::nothing;
  bool led = false;               // some tensor that takes part has elements
  bool has_memory = false;        // every tensor has what its kernel needs
  std::optional<Mode> turn = {};  // what is prepared; none: a step

  void choose_leader();
  void add_batches(const std::vector<Batch>& given);
  bool rest_as_before(const std::vector<StepInput>& inputs) const;
  void choose(const std::vector<StepInput>& inputs);
  void wait_for_last_step();
  void follow_capture(const std::vector<StepInput>& inputs);
  Given& given() { return capturing ? captured.back() : usual; }
  void send(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& numbers);
  void prepare(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& numbers);
  void launch_sums();
  void launch_stage(const HostStage& stage);
  void finish_step();
};

namespace {

VariantChoice choice_for(Machine& machine, const Plan& plan, const Batch& batch) {
  if (batch.variant) return {.variant = *batch.variant, .why = "the program asked for it"};
  return machine.choose_variant(plan, work_of(batch));
}

// Kernels that are not there yet are compiled at the same time.
std::vector<Unit> units_of(Machine& machine, const std::vector<Plan>& plans,
                           const std::vector<VariantChoice>& choices) {
  if (Engine* const checker = machine.contract_checker())
    for (const Plan& plan : plans) hold_to_contract(plan, *checker);
  std::vector<Unit> units;
  std::vector<NamedText> texts;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    units.push_back(unit(plans[i], choices[i].variant, machine.target()));
    texts.push_back({units.back().text, units.back().name});
  }
  if (texts.size() > 1) machine.build_all(texts);
  return units;
}

}  // namespace

void Step::State::add_batches(const std::vector<Batch>& given) {
  const std::vector<Plan> plans = plans_of(given);
  check_common(plans, common);
  for (std::size_t i = 0; i < given.size(); ++i)
    choices.push_back(choice_for(machine, plans[i], given[i]));
  const std::vector<Unit> units = units_of(machine, plans, choices);
  batches.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    batches.emplace_back(machine, plans[i], choices[i].variant, units[i], given[i].tensors, common);
    passes = std::max(passes, plans[i].passes);
    has_stage = has_stage || !plans[i].rule().host_stage.empty();
    for (const TensorRecord& tensor : batches.back().tensors()) tensors.push_back(&tensor);
  }
  sums = shared_sums(machine, batches);
  resting.assign(tensors.size(), false);
  if (common != nullptr) choose_leader();
}

// The tensor of lowest id that has work.
void Step::State::choose_leader() {
  LaunchBatch* leading = nullptr;
  int place = -1, lowest = std::numeric_limits<int>::max();
  const char* rests = resting.data();
  for (LaunchBatch& batch : batches) {
    batch.set_leader(-1);
    for (std::size_t i = 0; i < batch.tensors().size(); ++i) {
      const TensorRecord& tensor = batch.tensors()[i];
      if (*rests++ || tensor.n == 0 || tensor.id >= lowest) continue;
      leading = &batch;
      place = static_cast<int>(i);
      lowest = tensor.id;
    }
  }
  if (leading != nullptr) leading->set_leader(place);
  led = leading != nullptr;
}

bool Step::State::rest_as_before(const std::vector<StepInput>& inputs) const {
  const auto same = [](char rests, const StepInput& input) { return rests == input.rests; };
  return std::equal(resting.begin(), resting.end(), inputs.begin(), inputs.end(), same);
}

// Brings items and sums in line with who takes part.
void Step::State::choose(const std::vector<StepInput>& inputs) {
  if (rest_as_before(inputs)) return;
  resting.clear();  // until all went well
  const StepInput* own = inputs.data();
  for (LaunchBatch& batch : batches) {
    batch.choose(own);
    own += batch.tensors().size();
  }
  for (SharedSum& sum : sums) sum.choose(machine, batches, inputs);
  for (const StepInput& input : inputs) resting.push_back(input.rests);
  if (common != nullptr) choose_leader();
}

void Step::State::wait_for_last_step() {
  bool other_stream = false;
  for (LaunchBatch& batch : batches) other_stream |= batch.wait_for_last_step();
  if (counter) other_stream |= counter->wait_for_last_step();
  if (!other_stream) return;
  usual.steps.record_stream(machine);
  usual.sets.record_stream(machine);
  for (const SharedSum& sum : sums) sum.record_stream(machine);
}

// A graph finds buffers and tables of items as they are now, so that this step must be like the one before.
void Step::State::follow_capture(const std::vector<StepInput>& inputs) {
  if (!counter || turn || !rest_as_before(inputs)) machine.refuse_capture();
  for (LaunchBatch& batch : batches) batch.follow_capture();
  counter->follow_capture();
  captured.emplace_back();
}

void Step::State::send(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& numbers) {
  choose(inputs);
  records.clear();
  for (const LaunchBatch& batch : batches)
    for (const int layout : batch.layout()) {
      const StepInput& input = inputs[records.size()];
      void* const values = has_stage && !turn ? given().staged.all()[records.size()] : nullptr;
      records.push_back({input.g, input.cleared, values, input.rests ? -1 : input.set,
                         layout | (input.aligned ? kAligned : 0)});
    }
  auto& steps = given().steps;
  auto& sets = given().sets;
  steps.send(machine, records);
  if (common != nullptr) {
    numbered = numbers;
    for (HyperSet& set : numbered) {
      set.round = common->steps + (turn ? 0 : 1);
      set.common_lag = common->lag;
    }
  }
  sets.send(machine, common != nullptr ? numbered : numbers);
  const int set_count = static_cast<int>(numbers.size());
  const StepRecord* own = steps.data();
  for (LaunchBatch& batch : batches) {
    batch.set_inputs(own, sets.data(), set_count);
    own += batch.tensors().size();
  }
  for (SharedSum& sum : sums) sum.reserve_coefficients(machine, batches, set_count);
}

Step::Step(Machine& machine, const std::vector<Batch>& batches, CommonMemory* common)
    : state_(new State{.machine = machine, .common = common}) {
  state_->add_batches(batches);
}

Step::~Step() = default;
Step::Step(Step&&) noexcept = default;
Step& Step::operator=(Step&&) noexcept = default;

Step::State& Step::state() const {
  if (!state_) throw Error("this Step was moved from; use the one that it was moved to");
  return *state_;
}

void Step::count_on_device(bool on) {
  State& state = this->state();
  if (!on)
    state.counter.reset();
  else if (!state.counter)
    state.counter.emplace(state.machine);
}

bool Step::is_captured() const { return !state().captured.empty(); }

std::size_t Step::size() const { return state().tensors.size(); }

const Kernel& Step::kernel(std::size_t batch) const { return state().batches.at(batch).kernel(); }

const VariantChoice& Step::choice(std::size_t batch) const { return state().choices.at(batch); }

void Step::State::prepare(const std::vector<StepInput>& inputs,
                          const std::vector<HyperSet>& numbers) {
  if (!has_memory)
    for (const LaunchBatch& batch : batches) check_memory(batch.plan(), batch.tensors());
  has_memory = true;
  capturing = machine.is_capturing();
  if (capturing)
    follow_capture(inputs);
  else if (!captured.empty())
    throw Error("a Step that was captured is the graph's; make another one for steps outside");
  else
    wait_for_last_step();
  if (has_stage && !turn) given().staged.reserve(machine, batches, inputs);
  send(inputs, numbers);
  due = Due::everything;
}

void Step::State::launch_sums() {
  for (int pass = 0; pass < passes; ++pass) {
    for (LaunchBatch& batch : batches) batch.launch_partials(pass);
    for (LaunchBatch& batch : batches) batch.launch_finish(pass);
  }
}

void Step::State::launch_stage(const HostStage& stage) {
  for (LaunchBatch& batch : batches) batch.launch_stage();
  std::vector<StagedTensor> handed;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
    if (void* const values = given().staged.all()[tensor]) handed.push_back({tensor, values});
  stage(handed);
}

void Step::State::finish_step() {
  for (LaunchBatch& batch : batches) batch.launch_apply();
  if (!capturing) usual.staged.release();
  if (counter) {
    counter->launch(given().steps.data(), records.size(), given().sets.data(), led);
  } else if (led) {
    ++common->steps;
  }
}

void Step::prepare(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& sets) {
  State& state = this->state();
  state.due = State::Due::nothing;
  check_inputs(inputs, state.tensors, sets);
  check_gradients(inputs, state.tensors);
  check_counters(inputs, state.tensors, sets, state.common, state.counter.has_value());
  for (const LaunchBatch& batch : state.batches) check_scale(batch.plan(), sets);
  state.turn.reset();
  state.prepare(inputs, sets);
}

void Step::prepare(Mode to, const std::vector<StepInput>& inputs,
                   const std::vector<HyperSet>& sets) {
  State& state = this->state();
  state.due = State::Due::nothing;
  check_inputs(inputs, state.tensors, sets);
  // Kernels find the set of the step to come behind that of the last one.
  std::vector<StepInput> turned = inputs;
  for (StepInput& input : turned) input.set *= 2;
  std::vector<HyperSet> pairs;
  for (const HyperSet& set : sets) {
    pairs.insert(pairs.end(), 2, set);
    ++pairs.back().t;
  }
  state.turn = to;
  state.prepare(turned, pairs);
}

void Step::stage(const HostStage& stage) {
  State& state = this->state();
  if (state.due != State::Due::everything || state.turn)
    throw Error("Step::stage() without a prepare() of a step that succeeded before it");
  state.due = State::Due::nothing;
  try {
    state.launch_sums();
    if (state.has_stage) state.launch_stage(stage);
  } catch (...) {
    state.usual.staged.release();
    throw;
  }
  state.due = State::Due::apply;
}

void Step::launch() {
  State& state = this->state();
  const State::Due due = std::exchange(state.due, State::Due::nothing);
  if (due == State::Due::nothing)
    throw Error("Step::launch() without a prepare() that succeeded before it");
  if (due == State::Due::everything && !state.turn) {
    if (state.has_stage)
      throw Error("Step::launch() of a rule with a host stage: call Step::stage() before it");
    state.launch_sums();
  }
  if (!state.turn) state.finish_step();
  for (LaunchBatch& batch : state.batches)
    if (state.turn) batch.launch_turn(*state.turn);
  if (state.capturing) return;
  for (LaunchBatch& batch : state.batches) batch.record_step();
  if (state.counter) state.counter->record_step();
}

void Step::run(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& sets,
               const HostStage& stage) {
  prepare(inputs, sets);
  if (stage) this->stage(stage);
  launch();
}

void Step::run(Mode to, const std::vector<StepInput>& inputs, const std::vector<HyperSet>& sets) {
  prepare(to, inputs, sets);
  launch();
}

void Step::hand_over() { state().wait_for_last_step(); }

}  // namespace jitstep::jit
