// The kernels, tables and sums of a new Step.
#include <algorithm>
#include <limits>

#include "jit/codegen/shared_sums.h"
#include "jit/step/check_rule_contract.h"
#include "jit/step/step_checks.h"
#include "jit/step/step_state.h"

namespace jitstep::jit {
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
    transforms = std::max(transforms, batches.back().transforms());
    for (const TensorRecord& tensor : batches.back().tensors()) tensors.push_back(&tensor);
  }
  // After the kernels, because those name a missing function by its signature.
  if (Engine* const checker = backend.contract_checker())
    for (const Plan& plan : plans) check_rule_contract(plan, *checker);
  sums = shared_sums(backend, batches);
  inactive.assign(tensors.size(), false);
  if (shared_state != nullptr) choose_shared_state_writer();
}

// Selects, among the active tensors of the rule with shared state, the one of lowest id that has elements, here or in
// another part.
void Step::State::choose_shared_state_writer() {
  LaunchBatch* writer_batch = nullptr;
  int index = -1, lowest = std::numeric_limits<int>::max();
  std::size_t number = 0;  // of the tensor among those of all batches
  for (LaunchBatch& batch : batches) {
    batch.set_shared_state_writer(-1);
    const bool shares = !batch.plan().shared_state.empty();
    for (std::size_t i = 0; i < batch.tensors().size(); ++i, ++number) {
      const TensorRecord& tensor = batch.tensors()[i];
      const bool steps = inactive[number] == 0 && batch.elements(i) > 0;
      if (!shares || !steps || tensor.id >= lowest) continue;
      writer_batch = &batch;
      index = static_cast<int>(i);
      lowest = tensor.id;
    }
  }
  if (writer_batch != nullptr) writer_batch->set_shared_state_writer(index);
  has_writer = writer_batch != nullptr;
}

}  // namespace jitstep::jit
