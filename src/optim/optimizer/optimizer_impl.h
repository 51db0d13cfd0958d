// Private data of an Optimizer: records of groups and parameters, cached from step to step.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "jitstep/optimizer.h"
#include "optim/optimizer/grad_hooks.h"
#include "optim/optimizer/host_transforms.h"
#include "optim/optimizer/stepper.h"
#include "optim/options/group_record.h"
#include "optim/state/shared_state_tensors.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/tensor_fingerprint.h"

namespace jitstep {

// True if a kernel has a reduction over all parameters, or shared state.
bool shares(const jit::Plan& plan);

// Cached data about one parameter, from the last time it was checked.
struct Optimizer::ParamRecord {
  void* key = nullptr;
  torch::optim::OptimizerParamState* held = nullptr;
  ParamState* state = nullptr;           // `held`, once its type was checked
  const std::type_info* type = nullptr;  // of *held: a new object may have the same address
  std::shared_ptr<const jit::Plan> plan = nullptr;  // unique to this binding of the state
  TensorFingerprint fingerprint = {};               // of the parameter
  TensorFingerprint gradient = {};                  // of the last gradient
  bool gradient_checked = false;                    // valid while `gradient` matches
  int version = 0;                                  // changes when kernel tables become invalid
  int revision = -1;                                // of the group when the state was bound
  int id = 0;
  int number = 0;  // in its group, without duplicates; indexes options with a value per parameter
  bool repeated = false;              // a duplicate in its group, which is not stepped
  bool shares = false;                // see shares(plan)
  std::optional<Stepper> alone = {};  // for steps inside backward()

  // True if `now` is the same object as at the last check.
  bool knows(const torch::optim::OptimizerParamState* now) const {
    return now == held && (now == nullptr || typeid(*now) == *type);
  }
  // True if `now` is bound to this parameter with the group's current options, and still fits. If the storage did not
  // move, shape and dtype are unchanged. Always false at step 0, so that bind() checks the initial state.
  bool is_bound(const torch::optim::OptimizerParamState* now, int of_group, const torch::Tensor& p,
                bool storage_unchanged) const {
    return now != nullptr && knows(now) && revision == of_group && state->is_bound() &&
           state->buffers_.plan == plan && state->buffers_.t.counted() > 0 &&
           ((storage_unchanged && !state->is_shared()) || state->fits(p));
  }
  StepParameter in_step(const torch::Tensor& p, const torch::Tensor* grad,
                        const ParameterName& name) const {
    return {&p, grad, state == nullptr ? nullptr : &state->buffers_, name, version};
  }
};

struct Optimizer::Impl {
  struct Group {
    GroupRecord record;
    std::vector<ParamRecord> param_records;
    std::string rule;
    GroupTransform transform;  // empty if the rule has none
  };
  // A parameter of this step whose state must be created or bound again first.
  struct PendingBinding {
    std::size_t work, group, index;
    std::shared_ptr<const jit::Plan> plan;
    bool made;                         // this step created the state
    std::optional<ParamState> before;  // for the rollback: the state before bind()
    torch::Tensor parameter = {};      // for the rollback: a copy if bind() rounds it again
  };

  Impl(Optimizer& of, NonTrainablePolicy what) : optimizer(&of), frozen(what) {}

  Optimizer* optimizer;  // updated when the Optimizer is moved
  NonTrainablePolicy frozen;
  bool several_rules = false;  // each group's options name its rule
  std::vector<Group> groups;
  std::vector<HyperParams> hyper_params;  // one per group
  std::unordered_map<void*, int> ids;
  std::vector<StepParameter> work, inactive;  // of this step: with a gradient, and without
  std::vector<PendingBinding> pending;
  std::vector<ParameterName> new_gradients;  // of this step: gradients whose storage changed
  std::deque<torch::Tensor> materialised;    // of this step: copies of lazy gradients
  ParameterMemory memory;
  bool memory_checked = false;  // valid while no parameter's storage changes
  StepExtras extras;
  std::vector<torch::Tensor> lrs;   // by group, may be shorter; undefined: the option lr is used
  int versions = 0;                 // the last ParamRecord::version
  bool clearing_checked = false;    // valid while the storage of no gradient and state changes
  SharedStateTensors shared_state;  // outlives the stepper's tables
  Stepper stepper;
  bool tunes = false;              // the options request tuning in steps
  bool tuning_is_settled = false;  // it is decided whether the stepper has a tuner
  jit::Agreement agree = {};
  jit::Mode mode = jit::Mode::train;  // for a rule with modes
  std::mutex stepping;                // inside backward(), which uses one thread per device
  std::optional<GradHooks> hooks;     // while step_in_backward() is on

  void resize(std::size_t count) {
    groups.resize(count);
    hyper_params.resize(count);
  }
  // The host transforms of all groups; empty if no group has one.
  TransformOfGroup transform() const {
    const bool any =
        std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.transform; });
    if (!any) return {};
    return [this](std::size_t g, const std::vector<torch::Tensor>& values) {
      groups[g].transform(values, groups[g].record.values());
    };
  }
  void start_gathering() {
    work.clear();
    inactive.clear();
    pending.clear();
    new_gradients.clear();
    materialised.clear();
  }
  // True if a parameter's storage and metadata are unchanged. If not, invalidates the cached data: the state may no
  // longer fit, kernel tables have the old address, and the parameter may share memory with others.
  bool storage_unchanged(ParamRecord& param_record, const torch::Tensor& p) {
    if (param_record.fingerprint.same_storage(p)) return true;
    if (!param_record.fingerprint.same_metadata(p)) param_record.revision = -1;
    param_record.fingerprint = TensorFingerprint(p);
    param_record.gradient_checked = false;
    param_record.version = ++versions;
    memory_checked = false;
    return false;
  }
  // Ids count in order of first appearance.
  int id_of(void* key) { return ids.emplace(key, static_cast<int>(ids.size())).first->second; }
};

}  // namespace jitstep
