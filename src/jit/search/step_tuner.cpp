#include "jit/search/step_tuner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "jit/base/log.h"
#include "jit/base/text.h"
#include "jit/search/candidate_check.h"
#include "jit/search/config_space.h"
#include "jit/step/batch_numbers.h"
#include "jit/tuning/tuning_files.h"

namespace jitstep::jit {
namespace {

// Processes that train together must end their trials in the same step, so all trials have the same length.
TrialRules rules_for(bool single_process) {
  TrialRules rules;
  if (single_process) return rules;
  rules.least_rounds = rules.most_rounds = 10;
  rules.hopeless = std::numeric_limits<double>::infinity();
  return rules;
}

// A tensor in a step. Null if there is none.
struct ActiveTensor {
  const StepTensor* tensor = nullptr;
  const StepInput* input = nullptr;
};

// The tensor with the most elements on this process, of those that are active.
ActiveTensor largest_active(const Batch& batch, const StepInput* inputs) {
  ActiveTensor largest;
  for (const StepTensor& tensor : batch.tensors) {
    const StepInput* const input = inputs++;
    if (input->inactive) continue;
    if (largest.tensor == nullptr || tensor.shape.elements() > largest.tensor->shape.elements())
      largest = {&tensor, input};
  }
  return largest;
}

// Processes that train together choose among the same candidates, whatever their hardware. Each has its place in the
// trials, so they are not identified by their values.
Strategy by_place(std::vector<KernelConfig> candidates) {
  return [candidates = std::move(candidates)](
             const std::vector<Trial>& before) -> std::optional<KernelConfig> {
    if (before.size() >= candidates.size()) return {};
    return candidates[before.size()];
  };
}

}  // namespace

// A step of the current tables.
struct StepTuner::Now {
  const TunerInput& tables;
  const std::vector<StepInput>& inputs;
  const std::vector<HyperParams>& hyper_params;

  ActiveTensor largest(std::size_t batch) const {
    const std::size_t first = first_numbers(tables.batches)[batch];
    return largest_active(tables.batches[batch], inputs.data() + first);
  }
};

StepTuner::StepTuner(Engine& engine, Agreement agree)
    : engine_(engine), agree_(std::move(agree)), rules_(rules_for(!agree_)) {
  engine_.skip_baselines();
}

// Results of one device are not valid for another. Processes that train together go on with their searches, because the
// others may have the same hardware as before.
void StepTuner::set_hardware(const Hardware& hardware) {
  if (chooser_ && hardware == hardware_) return;
  if (!agree_) kernels_.clear();
  if (hardware.target != hardware_.target) usable_.clear();
  hardware_ = hardware;
  chooser_.emplace(engine_, hardware);
}

// Processes that train together may have gradients of other layouts, and other parts of the tensors, or none.
std::string StepTuner::key_of(const Batch& batch) const {
  KernelSpec spec = batch.plan.spec;
  if (agree_) {
    spec.strided = false;
    spec.gradient = Dtype::float32;
    return to_string(spec);
  }
  const WorkSize size = batch.size();
  return str_cat(to_string(spec), " ", size.elements, " ", size.tensors);
}

// Processes that train together ignore tuning records, which may differ between machines, and tune kernels of whose
// tensors they have no elements.
bool StepTuner::is_known(const Batch& batch) {
  if (agree_) return false;
  const WorkSize size = batch.size();
  return size.elements == 0 || chooser_->exact(batch.plan, size).has_value();
}

StepTuner::KernelSearch& StepTuner::kernel_of(const Batch& batch) {
  const std::string key = key_of(batch);
  if (const auto known = kernels_.find(key); known != kernels_.end()) return known->second;
  const Target& target = hardware_.target;
  const KernelConfig default_config = default_kernel_config(batch.plan, target);
  std::vector<KernelConfig> candidates =
      agree_ ? common_candidates(batch.plan, target)
             : config_space(batch.plan, hardware_).single_changes(default_config);
  const std::size_t count = candidates.size();
  Strategy strategy = agree_ ? by_place(std::move(candidates)) : in_order(std::move(candidates));
  ConfigSearch search(default_config, std::move(strategy), rules_, agree_);
  KernelSearch result{key, batch.plan, batch.size(), hardware_, std::move(search), count};
  return kernels_.emplace(key, std::move(result)).first->second;
}

void StepTuner::begin(const TunerInput& tables, const Hardware& hardware) {
  kernel_of_batch_.clear();
  order_.clear();
  specs_.clear();
  steps_.clear();
  untuned_configs_.clear();
  running_ = nullptr;
  set_hardware(hardware);
  for (const Batch& batch : tables.batches) {
    const bool tuned = kernels_.contains(key_of(batch)) || !is_known(batch);
    KernelSearch* const kernel = tuned ? &kernel_of(batch) : nullptr;
    kernel_of_batch_.push_back(kernel);
    specs_.push_back(to_string(batch.plan.spec));
    if (tuned && std::find(order_.begin(), order_.end(), kernel) == order_.end())
      order_.push_back(kernel);
    untuned_configs_.push_back(tables.backend.choose_config(batch.plan, batch.size()).config);
  }
  if (!agree_) return;
  // Other processes may have made their batches in another order.
  std::sort(order_.begin(), order_.end(),
            [](const KernelSearch* a, const KernelSearch* b) { return a->key < b->key; });
}

bool StepTuner::is_over() const {
  return std::all_of(order_.begin(), order_.end(),
                     [](const KernelSearch* kernel) { return kernel->search.done(); });
}

bool StepTuner::has_elements(const KernelSearch& kernel, const TunerInput& tables) const {
  for (std::size_t b = 0; b < kernel_of_batch_.size(); ++b)
    if (kernel_of_batch_[b] == &kernel && tables.batches[b].size().elements > 0) return true;
  return false;
}

bool StepTuner::is_active(const KernelSearch& kernel, const Now& now) const {
  for (std::size_t b = 0; b < kernel_of_batch_.size(); ++b)
    if (kernel_of_batch_[b] == &kernel && now.largest(b).tensor != nullptr) return true;
  return false;
}

// The kernel whose search this step continues. With an Agreement it depends only on which tensors are active, because
// that is the same in all processes. The tables may also have tensors that were active earlier.
StepTuner::KernelSearch* StepTuner::next_search(const Now& now) const {
  for (KernelSearch* const kernel : order_)
    if (!kernel->search.done() && (!agree_ || is_active(*kernel, now))) return kernel;
  return nullptr;
}

// False for candidates that other processes try on their hardware only.
bool StepTuner::is_tried_here(const KernelSearch& kernel, const KernelConfig& candidate) const {
  return kernel.hardware.target == hardware_.target &&
         candidate != kernel.search.default_config() &&
         config_space(kernel.plan, hardware_).holds(candidate);
}

std::optional<Trial> StepTuner::problem_of_batch(std::size_t batch, const KernelConfig& candidate,
                                                 const Now& now) {
  const auto [tensor, input] = now.largest(batch);
  const std::int64_t elements = tensor == nullptr ? 0 : tensor->shape.elements();
  std::pair<std::string, KernelConfig> checked{specs_[batch], candidate};
  const auto known = usable_.find(checked);
  if (elements <= (known == usable_.end() ? 0 : known->second)) return {};
  const Plan& plan = now.tables.batches[batch].plan;
  const Candidate kernel{plan, now.hyper_params.at(static_cast<std::size_t>(input->hyper_index)),
                         tensor->shape.sizes};
  const KernelConfig default_config = default_kernel_config(plan, hardware_.target);
  auto problem =
      check_candidate(now.tables.backend, kernel, default_config, candidate, now.tables.download);
  if (problem)
    usable_.erase(checked);
  else
    usable_.insert_or_assign(std::move(checked), elements);
  return problem;
}

std::optional<Trial> StepTuner::problem_of(const KernelSearch& kernel, const Now& now) {
  const KernelConfig candidate = kernel.search.next();
  if (agree_ && !is_tried_here(kernel, candidate))
    return Trial{.config = candidate,
                 .status = TrialStatus::exceeds_resources,
                 .detail = "it is not a candidate on this hardware"};
  for (std::size_t b = 0; b < kernel_of_batch_.size(); ++b)
    if (kernel_of_batch_[b] == &kernel)
      if (auto problem = problem_of_batch(b, candidate, now)) return problem;
  return {};
}

// Checks candidates one after another until one can run. The step itself does not need what a check lacks.
StepTuner::KernelSearch* StepTuner::next_usable(const Now& now) {
  while (KernelSearch* const kernel = next_search(now)) {
    if (!kernel->search.tries_candidate()) return kernel;
    if (check_next(kernel->search, [&] { return problem_of(*kernel, now); })) return kernel;
    if (kernel->search.done()) write(*kernel);
  }
  return nullptr;
}

// A batch that has no elements here, or that the check of a candidate has not seen, runs its default.
KernelConfig StepTuner::config_of(std::size_t batch, const Plan& plan) const {
  const KernelSearch* const kernel = kernel_of_batch_[batch];
  const bool settled = kernel != nullptr && (kernel == running_ || kernel->search.done());
  if (!settled) return untuned_configs_[batch];
  const KernelConfig& wanted = kernel->search.next();
  return usable_.contains({specs_[batch], wanted}) ? wanted
                                                   : default_kernel_config(plan, hardware_.target);
}

Step& StepTuner::current_step(const TunerInput& tables) {
  std::vector<KernelConfig> configs;
  for (std::size_t i = 0; i < tables.batches.size(); ++i)
    configs.push_back(config_of(i, tables.batches[i].plan));
  auto step = steps_.find(configs);
  if (step == steps_.end()) {
    std::vector<Batch> batches = tables.batches;
    for (std::size_t i = 0; i < batches.size(); ++i) batches[i].config = configs[i];
    step = steps_.try_emplace(configs, tables.backend, batches, tables.shared_state).first;
    step->second.set_exchange(tables.exchange);
  }
  // From now on, only the final step is needed. The others end after it exists, so that it has another address.
  if (is_over() && steps_.size() > 1)
    std::erase_if(steps_, [&](const auto& one) { return &one != &*step; });
  return step->second;
}

Step* StepTuner::choose(const TunerInput& tables, const std::vector<StepInput>& inputs,
                        const std::vector<HyperParams>& hyper_params) {
  running_ = nullptr;
  if (order_.empty()) return nullptr;
  const bool whole = std::none_of(inputs.begin(), inputs.end(),
                                  [](const StepInput& input) { return input.inactive; });
  if (!agree_ && !whole && !is_over()) return nullptr;
  running_ = next_usable({tables, inputs, hyper_params});
  measures_ = running_ == nullptr || has_elements(*running_, tables);
  return &current_step(tables);
}

void StepTuner::record(double seconds) {
  KernelSearch* const kernel = std::exchange(running_, nullptr);
  if (kernel == nullptr) return;
  kernel->search.record(measures_ ? seconds : kNothingMeasured);
  if (kernel->search.done()) write(*kernel);
}

TuningProgress StepTuner::progress() const {
  TuningProgress progress;
  for (const KernelSearch* const kernel : order_) {
    // The search may repeat candidates after it has tried all of them.
    const std::size_t before_last = std::max<std::size_t>(kernel->candidates, 1) - 1;
    const std::size_t tried = std::min(kernel->search.trials().size(), before_last);
    progress.candidates += kernel->candidates;
    progress.tried += kernel->search.done() ? kernel->candidates : tried;
  }
  return progress;
}

void StepTuner::write(KernelSearch& kernel) {
  const std::string path = user_records(engine_.settings());
  if (path.empty() || std::exchange(kernel.written, true)) return;
  if (kernel.size.elements == 0 || kernel.hardware != hardware_) return;
  TuningRecord record =
      record_of(kernel.search, {.kernel = kernel.plan.name,
                                .spec = to_string(kernel.plan.spec),
                                .size = kernel.size,
                                .hardware = hardware_,
                                .versions = versions_of(engine_, kernel.plan, hardware_.target),
                                .strategy = kInSteps,
                                .date = today(),
                                .complete = !kernel.search.is_cut()});
  std::erase_if(record.trials,
                [&](const Trial& trial) { return !is_tried_here(kernel, trial.config); });
  if (record.outcome != Outcome::won && !record.complete) return;  // nothing would use it
  if (const auto problem = add_record(path, record))
    warn(engine_.settings().log, str_cat("the tuning result cannot be stored: ", *problem));
}

std::unique_ptr<StepTuner> make_step_tuner(bool requested, Agreement agree) {
  Engine& engine = default_engine();
  const Settings& settings = engine.settings();
  if ((!requested && !settings.tune) || settings.check) return nullptr;
  if (settings.ranks > 1 && !agree) {
    warn(settings.log,
         str_cat("steps are not tuned: WORLD_SIZE is ", settings.ranks,
                 ", and processes that train together must choose the same configuration. Call "
                 "set_tuning_agreement() of the optimizer (in Python tune(agree=...)), or run "
                 "`jitstep tune` first."));
    return nullptr;
  }
  return std::make_unique<StepTuner>(engine, std::move(agree));
}

}  // namespace jitstep::jit
