// What an optimizer derives from its groups and parameters, kept from step to step.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "jitstep/optimizer.h"
#include "optim/optimizer/stages.h"
#include "optim/optimizer/stepper.h"
#include "optim/options/group_record.h"
#include "optim/state/common_state.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {

// A parameter as it was when last looked at.
struct Optimizer::Member {
  void* key = nullptr;
  torch::optim::OptimizerParamState* held = nullptr;
  ParamState* state = nullptr;     // the same, once it is known to be one
  const void* memory = nullptr;    // where it lay when memory was last checked
  const void* gradient = nullptr;  // where its gradient lay then
  int revision = -1;               // of the group when the state was bound
  int id = 0;
  bool repeated = false;  // listed before in its group, and stepped there
};

struct Optimizer::Records {
  struct Group {
    GroupRecord record;
    std::vector<Member> members;
    std::string rule;
    GroupStage stage;     // of the rule; empty: it has none
    bool shares = false;  // some of its kernels take a sum over all parameters, or memory of all
  };
  // A parameter of this step whose state must be made or bound again first.
  struct PendingBinding {
    std::size_t work, group, place;
    std::shared_ptr<const jit::Plan> plan;
    bool made;                         // in this step: there was no state before
    std::optional<ParamState> before;  // what there was, once it may have changed
  };

  explicit Records(Frozen what) : frozen(what) {}

  Frozen frozen;
  bool several_rules = false;  // each group's options say theirs
  std::vector<Group> groups;
  std::vector<HyperSet> numbers;  // of the groups
  std::unordered_map<void*, int> ids;
  std::vector<StepParameter> work;
  std::vector<PendingBinding> pending;
  std::vector<ParameterName> new_gradients;  // of this step: those that lie elsewhere than before
  std::deque<torch::Tensor> materialised;    // gradients of this step that had no memory to read
  ParameterMemory memory;
  StepExtras extras;
  bool clearing_checked = false;  // as long as no gradient and no state lies elsewhere
  CommonState common;             // outlives the stepper's tables
  Stepper stepper;
  jit::Mode mode = jit::Mode::train;  // of a rule that has modes

  void resize(std::size_t count) {
    groups.resize(count);
    numbers.resize(count);
  }
  // Numbers in the order of first appearance.
  int id_of(void* key) { return ids.emplace(key, static_cast<int>(ids.size())).first->second; }
};

}  // namespace jitstep
