// What an optimizer derives from its groups and parameters, kept from step to step.
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

// Whether a kernel takes a sum over all parameters, or memory that all of them share.
bool shares(const jit::Plan& plan);

// A parameter as it was when last looked at.
struct Optimizer::ParamRecord {
  void* key = nullptr;
  torch::optim::OptimizerParamState* held = nullptr;
  ParamState* state = nullptr;           // the same, once it is known to be one
  const std::type_info* type = nullptr;  // of what is held: another object may come to lie there
  std::shared_ptr<const jit::Plan> plan = nullptr;  // of this binding of the state alone
  TensorFingerprint fingerprint = {};               // when last looked at
  TensorFingerprint gradient = {};                  // as it was last read
  bool gradient_checked = false;                    // as long as it lies there
  int version = 0;                                  // another one when the kernels' tables must be
  int revision = -1;                                // of the group when the state was bound
  int id = 0;
  int number = 0;  // in its group, where none counts twice: options that list parameters go by it
  bool repeated = false;  // listed before in its group, and stepped there
  bool shares = false;    // its kernel takes a sum over all parameters, or memory of all
  std::optional<Stepper> alone = {};  // of the steps that it takes inside of a backward()

  // Whether what is held for it now is the object that was last looked at.
  bool knows(const torch::optim::OptimizerParamState* now) const {
    return now == held && (now == nullptr || typeid(*now) == *type);
  }
  // Whether that is the state that it was bound with, under these options, by nobody else since, and still fits: a
  // parameter that stays has the form it was bound with. At step 0 binding looks whether there is anything to go on
  // from.
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
    GroupTransform stage;  // of the rule; empty: it has none
  };
  // A parameter of this step whose state must be made or bound again first.
  struct PendingBinding {
    std::size_t work, group, index;
    std::shared_ptr<const jit::Plan> plan;
    bool made;                         // in this step: there was no state before
    std::optional<ParamState> before;  // what there was, once it may have changed
    torch::Tensor parameter = {};      // as it was, where it is rounded anew
  };

  Impl(Optimizer& of, NonTrainablePolicy what) : optimizer(&of), frozen(what) {}

  Optimizer* optimizer;  // which may move
  NonTrainablePolicy frozen;
  bool several_rules = false;  // each group's options say theirs
  std::vector<Group> groups;
  std::vector<HyperParams> hyper_params;  // of the groups
  std::unordered_map<void*, int> ids;
  std::vector<StepParameter> work, inactive;  // of this step: with a gradient, and without
  std::vector<PendingBinding> pending;
  std::vector<ParameterName> new_gradients;  // of this step: those that lie elsewhere than before
  std::deque<torch::Tensor> materialised;    // gradients of this step that had no memory to read
  ParameterMemory memory;
  bool memory_checked = false;  // as long as no parameter lies elsewhere
  StepExtras extras;
  std::vector<torch::Tensor> lrs;   // of the first groups; undefined: the options'
  int versions = 0;                 // given to members
  bool clearing_checked = false;    // as long as no gradient and no state lies elsewhere
  SharedStateTensors shared_state;  // outlives the stepper's tables
  Stepper stepper;
  bool tunes = false;              // as the options ask
  bool tuning_is_settled = false;  // the stepper has a tuner, or is to have none
  jit::Agreement agree = {};
  jit::Mode mode = jit::Mode::train;  // of a rule that has modes
  std::mutex stepping;                // inside of a backward(), where each device has a thread
  std::optional<GradHooks> hooks;     // while steps are taken there

  void resize(std::size_t count) {
    groups.resize(count);
    hyper_params.resize(count);
  }
  // What the groups' rules have done by the host; empty: none has anything.
  TransformOfGroup stage() const {
    const bool any =
        std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.stage; });
    if (!any) return {};
    return [this](std::size_t g, const std::vector<torch::Tensor>& values) {
      groups[g].stage(values, groups[g].record.values());
    };
  }
  void start_gathering() {
    work.clear();
    inactive.clear();
    pending.clear();
    new_gradients.clear();
    materialised.clear();
  }
  // Whether a parameter lies where it lay when last looked at. If not, what was known of it is void: its state may no
  // longer fit, kernels' tables have its old address, and it may share memory with others.
  bool storage_unchanged(ParamRecord& param_record, const torch::Tensor& p) {
    if (param_record.fingerprint.same_storage(p)) return true;
    if (!param_record.fingerprint.same_metadata(p)) param_record.revision = -1;
    param_record.fingerprint = TensorFingerprint(p);
    param_record.gradient_checked = false;
    param_record.version = ++versions;
    memory_checked = false;
    return false;
  }
  // Numbers in the order of first appearance.
  int id_of(void* key) { return ids.emplace(key, static_cast<int>(ids.size())).first->second; }
};

}  // namespace jitstep
