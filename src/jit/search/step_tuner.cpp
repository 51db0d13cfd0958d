#include "jit/search/step_tuner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "jit/base/log.h"
#include "jit/base/text.h"
#include "jit/search/candidate_check.h"
#include "jit/search/config_space.h"
#include "jit/tuning/tuning_files.h"

namespace jitstep::jit {
namespace {

// Processes that train together must end their trials in the same step, so all trials have the same length.
TrialRules rules_for(bool single_process) {
  TrialRules rules;
  if (single_process) return rules;
  rules.least_rounds = rules.most_rounds = 9;
  rules.hopeless = std::numeric_limits<double>::infinity();
  return rules;
}

std::string key_of(const Batch& batch) {
  const WorkSize size = batch.size();
  return str_cat(to_string(batch.plan.spec), " ", size.elements, " ", size.tensors);
}

}  // namespace

StepTuner::StepTuner(Engine& engine, Agreement agree)
    : engine_(engine), agree_(std::move(agree)), rules_(rules_for(!agree_)) {
  engine_.skip_baselines();
}

// Results of one device are not valid for another.
void StepTuner::set_hardware(const Hardware& hardware) {
  if (chooser_ && hardware == hardware_) return;
  kernels_.clear();
  hardware_ = hardware;
  chooser_.emplace(engine_, hardware);
}

// Processes that train together ignore tuning records, which may differ between machines.
bool StepTuner::is_known(const Batch& batch) {
  const WorkSize size = batch.size();
  return size.elements == 0 || (!agree_ && chooser_->exact(batch.plan, size).has_value());
}

StepTuner::KernelSearch& StepTuner::kernel_of(const Batch& batch) {
  const WorkSize size = batch.size();
  const std::string key = key_of(batch);
  if (const auto known = kernels_.find(key); known != kernels_.end()) return known->second;
  const KernelConfig default_config = default_kernel_config(batch.plan, hardware_.target);
  const auto space = config_space(batch.plan, hardware_);
  std::vector<KernelConfig> candidates = space.single_changes(default_config);
  const std::size_t count = candidates.size();
  KernelSearch made{batch.plan, size,
                    ConfigSearch(default_config, in_order(std::move(candidates)), rules_, agree_),
                    count};
  return kernels_.emplace(key, std::move(made)).first->second;
}

void StepTuner::begin(const TunedTables& tables, const Hardware& hardware) {
  kernel_of_batch_.clear();
  steps_.clear();
  untuned_configs_.clear();
  set_hardware(hardware);
  for (const Batch& batch : tables.batches) {
    const bool tuned = kernels_.contains(key_of(batch)) || !is_known(batch);
    kernel_of_batch_.push_back(tuned ? &kernel_of(batch) : nullptr);
    untuned_configs_.push_back(tables.backend.choose_config(batch.plan, batch.size()).config);
  }
}

StepTuner::KernelSearch* StepTuner::active() {
  for (KernelSearch* const kernel : kernel_of_batch_)
    if (kernel != nullptr && !kernel->search.done()) return kernel;
  return nullptr;
}

// Checks candidates one after another until one can run.
void StepTuner::reject_unusable(const TunedTables& tables, const std::vector<StepInput>& inputs,
                                const std::vector<HyperParams>& hyper_params) {
  while (KernelSearch* const kernel = active()) {
    ConfigSearch& search = kernel->search;
    if (!search.is_new()) return;
    const auto batch = static_cast<std::size_t>(
        std::find(kernel_of_batch_.begin(), kernel_of_batch_.end(), kernel) -
        kernel_of_batch_.begin());
    std::size_t first = 0;
    for (std::size_t i = 0; i < batch; ++i) first += tables.batches[i].tensors.size();
    const Candidate candidate{kernel->plan,
                              hyper_params.at(static_cast<std::size_t>(inputs[first].hyper_index)),
                              tables.batches[batch].tensors.front().shape.sizes};
    const KernelConfig default_config = default_kernel_config(kernel->plan, hardware_.target);
    const auto problem =
        check_candidate(tables.backend, candidate, default_config, search.next(), tables.download);
    if (!problem) return;
    search.reject(problem->status, problem->detail);
  }
}

Step& StepTuner::current_step(const TunedTables& tables) {
  const KernelSearch* const running = active();
  std::vector<KernelConfig> configs;
  for (std::size_t i = 0; i < kernel_of_batch_.size(); ++i) {
    const KernelSearch* const kernel = kernel_of_batch_[i];
    const bool settled = kernel != nullptr && (kernel == running || kernel->search.done());
    configs.push_back(settled ? kernel->search.next() : untuned_configs_[i]);
  }
  const auto known = steps_.find(configs);
  if (known != steps_.end()) return known->second;
  if (running == nullptr) steps_.clear();  // the search is over: only the final step is needed
  std::vector<Batch> batches = tables.batches;
  for (std::size_t i = 0; i < batches.size(); ++i) batches[i].config = configs[i];
  Step& step =
      steps_.try_emplace(configs, tables.backend, batches, tables.shared_state).first->second;
  step.set_exchange(tables.exchange);
  return step;
}

Step* StepTuner::choose(const TunedTables& tables, const std::vector<StepInput>& inputs,
                        const std::vector<HyperParams>& hyper_params) {
  timed_ = false;
  const auto tuned = [](const KernelSearch* kernel) { return kernel != nullptr; };
  if (std::none_of(kernel_of_batch_.begin(), kernel_of_batch_.end(), tuned)) return nullptr;
  const bool whole = std::none_of(inputs.begin(), inputs.end(),
                                  [](const StepInput& input) { return input.inactive; });
  if (whole) reject_unusable(tables, inputs, hyper_params);
  const KernelSearch* const running = active();
  if (running != nullptr && !whole) return nullptr;
  timed_ = running != nullptr;
  return &current_step(tables);
}

void StepTuner::record(double seconds) {
  KernelSearch* const kernel = timed_ ? active() : nullptr;
  if (kernel == nullptr) return;
  kernel->search.record(seconds);
  if (kernel->search.done()) write(*kernel);
}

TuningProgress StepTuner::progress() const {
  std::set<const KernelSearch*> counted;  // kernels of equal sizes share a search
  TuningProgress progress;
  for (const KernelSearch* const kernel : kernel_of_batch_) {
    if (kernel == nullptr || !counted.insert(kernel).second) continue;
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
  const TuningRecord record =
      record_of(kernel.search, {.kernel = kernel.plan.name,
                                .spec = to_string(kernel.plan.spec),
                                .size = kernel.size,
                                .hardware = hardware_,
                                .versions = versions_of(engine_, kernel.plan, hardware_.target),
                                .strategy = "in steps",
                                .date = today(),
                                .complete = true});
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
