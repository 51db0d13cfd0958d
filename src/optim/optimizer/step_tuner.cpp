#include "optim/optimizer/step_tuner.h"

#include <algorithm>
#include <limits>

#include "jit/base/log.h"
#include "jit/base/text.h"
#include "jit/search/candidate_check.h"
#include "jit/search/config_space.h"
#include "jit/tuning/tuning_files.h"

namespace jitstep {
namespace {

// Processes that train together must end their trials in the same step, so all trials have the same length.
jit::TrialRules rules_for(bool single_process) {
  jit::TrialRules rules;
  if (single_process) return rules;
  rules.least_rounds = rules.most_rounds = 9;
  rules.hopeless = std::numeric_limits<double>::infinity();
  return rules;
}

std::string key_of(const jit::Batch& batch) {
  const jit::WorkSize size = batch.size();
  return jit::str_cat(to_string(batch.plan.spec), " ", size.elements, " ", size.tensors);
}

}  // namespace

StepTuner::StepTuner(jit::Engine& engine, jit::Agreement agree)
    : engine_(engine), agree_(std::move(agree)), rules_(rules_for(!agree_)) {
  engine_.skip_baselines();
}

// Results of one device are not valid for another.
void StepTuner::set_hardware(const jit::Hardware& hardware) {
  if (chooser_ && hardware == hardware_) return;
  kernels_.clear();
  hardware_ = hardware;
  chooser_.emplace(engine_, hardware);
}

// Processes that train together ignore tuning records, which may differ between machines.
bool StepTuner::is_known(const jit::Batch& batch) {
  const jit::WorkSize size = batch.size();
  return size.elements == 0 || (!agree_ && chooser_->exact(batch.plan, size).has_value());
}

StepTuner::Kernel& StepTuner::kernel_of(const jit::Batch& batch) {
  const jit::WorkSize size = batch.size();
  const std::string key = key_of(batch);
  if (const auto known = kernels_.find(key); known != kernels_.end()) return known->second;
  const jit::KernelConfig default_config = jit::default_kernel_config(batch.plan, hardware_.target);
  const auto space = jit::config_space(batch.plan, hardware_);
  Kernel made{batch.plan, size,
              jit::ConfigSearch(default_config, jit::in_order(space.single_changes(default_config)),
                                rules_, agree_)};
  return kernels_.emplace(key, std::move(made)).first->second;
}

void StepTuner::begin(const TunedTables& tables, const jit::Hardware& hardware) {
  kernel_of_batch_.clear();
  steps_.clear();
  untuned_configs_.clear();
  set_hardware(hardware);
  for (const jit::Batch& batch : tables.batches) {
    const bool tuned = kernels_.contains(key_of(batch)) || !is_known(batch);
    kernel_of_batch_.push_back(tuned ? &kernel_of(batch) : nullptr);
    untuned_configs_.push_back(tables.backend.choose_config(batch.plan, batch.size()).config);
  }
}

StepTuner::Kernel* StepTuner::active() {
  for (Kernel* const kernel : kernel_of_batch_)
    if (kernel != nullptr && !kernel->search.done()) return kernel;
  return nullptr;
}

// Checks candidates one after another until one can run.
void StepTuner::reject_unusable(const TunedTables& tables,
                                const std::vector<jit::StepInput>& inputs,
                                const std::vector<HyperParams>& hyper_params) {
  while (Kernel* const kernel = active()) {
    jit::ConfigSearch& search = kernel->search;
    if (!search.is_new()) return;
    const auto batch = static_cast<std::size_t>(
        std::find(kernel_of_batch_.begin(), kernel_of_batch_.end(), kernel) -
        kernel_of_batch_.begin());
    std::size_t first = 0;
    for (std::size_t i = 0; i < batch; ++i) first += tables.batches[i].tensors.size();
    const jit::Candidate candidate{
        kernel->plan, hyper_params.at(static_cast<std::size_t>(inputs[first].hyper_index)),
        tables.batches[batch].tensors.front().shape.sizes};
    const jit::KernelConfig default_config =
        jit::default_kernel_config(kernel->plan, hardware_.target);
    const auto problem = jit::check_candidate(tables.backend, candidate, default_config,
                                              search.next(), tables.download);
    if (!problem) return;
    search.reject(problem->status, problem->detail);
  }
}

jit::Step& StepTuner::current_step(const TunedTables& tables) {
  const Kernel* const running = active();
  std::vector<jit::KernelConfig> configs;
  for (std::size_t i = 0; i < kernel_of_batch_.size(); ++i) {
    const Kernel* const kernel = kernel_of_batch_[i];
    const bool settled = kernel != nullptr && (kernel == running || kernel->search.done());
    configs.push_back(settled ? kernel->search.next() : untuned_configs_[i]);
  }
  const auto known = steps_.find(configs);
  if (known != steps_.end()) return known->second;
  if (running == nullptr) steps_.clear();  // the search is over: only the final step is needed
  std::vector<jit::Batch> batches = tables.batches;
  for (std::size_t i = 0; i < batches.size(); ++i) batches[i].config = configs[i];
  jit::Step& step =
      steps_.try_emplace(configs, tables.backend, batches, tables.shared_state).first->second;
  step.set_exchange(tables.exchange);
  return step;
}

jit::Step* StepTuner::choose(const TunedTables& tables, const std::vector<jit::StepInput>& inputs,
                             const std::vector<HyperParams>& hyper_params) {
  timed_ = false;
  const auto tuned = [](const Kernel* kernel) { return kernel != nullptr; };
  if (std::none_of(kernel_of_batch_.begin(), kernel_of_batch_.end(), tuned)) return nullptr;
  const bool whole = std::none_of(inputs.begin(), inputs.end(),
                                  [](const jit::StepInput& input) { return input.inactive; });
  if (whole) reject_unusable(tables, inputs, hyper_params);
  const Kernel* const running = active();
  if (running != nullptr && !whole) return nullptr;
  timed_ = running != nullptr;
  return &current_step(tables);
}

void StepTuner::record(double seconds) {
  Kernel* const kernel = timed_ ? active() : nullptr;
  if (kernel == nullptr) return;
  kernel->search.record(seconds);
  if (kernel->search.done()) write(*kernel);
}

void StepTuner::write(Kernel& kernel) {
  const std::string path = jit::user_records(engine_.settings());
  if (path.empty() || std::exchange(kernel.written, true)) return;
  const jit::TuningRecord record = jit::record_of(
      kernel.search, {.kernel = kernel.plan.name,
                      .spec = to_string(kernel.plan.spec),
                      .size = kernel.size,
                      .hardware = hardware_,
                      .versions = jit::versions_of(engine_, kernel.plan, hardware_.target),
                      .strategy = "in steps",
                      .date = jit::today(),
                      .complete = true});
  if (const auto problem = jit::add_record(path, record))
    jit::warn(engine_.settings().log,
              jit::str_cat("the tuning result cannot be stored: ", *problem));
}

std::unique_ptr<StepTuner> make_step_tuner(bool requested, jit::Agreement agree) {
  jit::Engine& engine = jit::default_engine();
  const jit::Settings& settings = engine.settings();
  if ((!requested && !settings.tune) || settings.check) return nullptr;
  if (settings.ranks > 1 && !agree) {
    jit::warn(
        settings.log,
        jit::str_cat("steps are not tuned: WORLD_SIZE is ", settings.ranks,
                     ", and processes that train together must choose the same configuration. Call "
                     "set_tuning_agreement() of the optimizer, or run `jitstep tune` first."));
    return nullptr;
  }
  return std::make_unique<StepTuner>(engine, std::move(agree));
}

}  // namespace jitstep
