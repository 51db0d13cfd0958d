// Private data of an Optimizer: records of groups and parameters, cached from step to step.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jitstep/optimizer.h"
#include "jitstep/reports.h"
#include "optim/optimizer/grad_hooks.h"
#include "optim/optimizer/group_record.h"
#include "optim/optimizer/host_transforms.h"
#include "optim/optimizer/step_hyper_params.h"
#include "optim/optimizer/stepper.h"
#include "optim/shard/rank_check.h"
#include "optim/state/archive.h"
#include "optim/state/param_state_data.h"
#include "optim/state/shared_state_tensors.h"
#include "optim/tensor/checks.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/tensor_fingerprint.h"

namespace jitstep {
class CheckpointFolder;
struct HostCopy;
struct PartIndex;

// Several tensor handles may refer to one parameter. torch indexes state by their common TensorImpl.
inline void* key_of(const torch::Tensor& p) { return p.unsafeGetTensorImpl(); }

// Everything private to an Optimizer. It reads torch's groups and states through the Optimizer, which may move.
struct Optimizer::Impl {
  enum class Operation { step, switch_mode };
  class Conversions;
  class PartsToSave;
  class Sharding;
  class Reduction;
  class Offload;
  using States = ska::flat_hash_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;
  using StateEntry = std::remove_pointer_t<decltype(States::iterator::current)>;
  // Where torch's table of states ends, and its size. Changes if the table moves.
  using StatesPlace = std::pair<const StateEntry*, std::size_t>;
  // The inputs that a program gave for the next step of a parameter, and the form that the parameter had then.
  struct GivenInputs {
    std::vector<torch::Tensor> values;  // by the rule's input; may be shorter; undefined: not given
    TensorFingerprint parameter;
  };
  // Cached data about one parameter, from the last time it was checked. StepParam::p is what is stepped: the program's
  // tensor, this rank's part of it, or its copy in host memory.
  struct ParamRecord : StepParam {
    void* key = nullptr;
    const torch::Tensor* parameter = nullptr;  // the program's tensor; set for each step
    const StateEntry* entry = nullptr;     // of torch's table of states, while that has not moved
    ParamState* state = nullptr;           // `buffers` are of it
    const std::type_info* type = nullptr;  // of *state: a new object may have the same address
    std::int64_t buffers_revision = 0;     // StateBuffers::revision after bind(); unique
    std::int64_t group_revision = -1;      // GroupRecord::revision() at bind(); -1: bind again
    bool gradient_checked = false;         // valid while `gradient` matches
    bool repeated = false;                 // a duplicate in its group, which is not stepped
    bool needs_all_tensors = false;        // jit::needs_all_tensors() of the plan
    TensorFingerprint fingerprint = {};    // of the parameter
    TensorFingerprint gradient = {};       // of the last gradient
    int id = 0;
    int index_in_group = 0;  // without duplicates; selects from options with a value per parameter
    std::optional<Stepper> alone = {};  // for steps inside backward()
    // With shard(): this rank's elements of the parameter, [n]. Undefined: all elements.
    torch::Tensor part = {};
    // Their gradient. With own gradients, the mean over ranks, also of all elements.
    torch::Tensor part_grad = {};
    std::vector<torch::Tensor> part_inputs = {};  // the same elements of its inputs
    HostCopy* host = nullptr;  // what is stepped if the state is offloaded; null: the parameter

    // What the next step will step.
    const torch::Tensor& stepped() const;

    void set_parameter(const torch::Tensor& now) { parameter = p = &now; }
    void set_state(ParamState* now) {
      state = now;
      type = now == nullptr ? nullptr : &typeid(*now);
      buffers = now == nullptr ? nullptr : &now->data().buffers;
    }
    // True if bind() is not needed: `now` is the state of the last check, bound with the group's current options, and
    // its buffers still fit. Compares addresses of type_info. If two libraries define one class, they differ, and the
    // state is only checked once more. `storage_unchanged`: shape and dtype need no check. Always false at step 0, so
    // that bind() checks the initial state.
    bool is_bound(const torch::optim::OptimizerParamState* now, std::int64_t revision_of_group,
                  bool storage_unchanged) const {
      if (now == nullptr || now != state || &typeid(*now) != type ||
          group_revision != revision_of_group)
        return false;
      const ParamState::Data& data = state->data();  // a new state at its address has other data
      return &data.buffers == buffers && data.is_bound() && state->is_intact() &&
             buffers->revision == buffers_revision && can_continue(buffers->t) &&
             ((storage_unchanged && !data.escaped.is_set()) || data.fits(stepped()));
    }
    // After at least one step, if one more can be counted.
    static bool can_continue(const StepCount& t) {
      return t.counted() >= 1 && t.counted() < std::numeric_limits<std::int64_t>::max();
    }
  };

  struct Group {
    GroupRecord record;
    std::vector<ParamRecord> param_records;
    std::string rule;
    std::vector<GroupTransform> transforms;  // of the rule, in order
  };
  // A parameter of this step whose state must be created or bound again first.
  struct PendingBinding {
    ParamRecord* record;
    std::shared_ptr<const jit::Plan> plan;
    bool is_new;                             // this step created the state
    std::optional<ParamState::Data> before;  // for the rollback: the state before bind()
    torch::Tensor parameter = {};            // for the rollback: a copy if bind() rounds it again
  };

  Impl(Optimizer& of, NonTrainablePolicy policy) : optimizer(&of), non_trainable_policy(policy) {}
  // A new Impl for `moved`, whose own Impl this is: without groups, with the same defaults.
  std::unique_ptr<Impl> left_in(Optimizer& moved) const;
  // Identifies the optimizer, also after it was moved. An address may be reused by another optimizer.
  const std::shared_ptr<const char> token = std::make_shared<const char>();

  Optimizer* optimizer;  // updated when the Optimizer is moved
  NonTrainablePolicy non_trainable_policy;
  bool several_rules = false;  // each group's options name its rule
  std::vector<Group> groups;
  std::vector<HyperParams> hyper_params;  // one per group
  std::unordered_map<void*, int> ids;
  std::vector<StepParam*> active, inactive;  // of this step: with a gradient, and without
  std::vector<PendingBinding> pending;
  StatesPlace states_place = {};            // valid for ParamRecord::entry
  std::vector<ParamRecord*> new_gradients;  // of this step: gradients whose storage changed
  std::deque<torch::Tensor> materialized;   // of this step: copies of lazy gradients
  ParameterMemory memory;
  std::optional<torch::Device> first_device;  // of the first parameter that was checked
  bool several_devices = false;               // another parameter was on another device
  bool memory_checked = false;                // valid while no parameter's storage changes
  StepExtras extras;
  std::unordered_map<void*, GivenInputs> given_inputs;  // by parameter; see set_input()
  std::vector<torch::Tensor> lrs;   // by group, may be shorter; undefined: the option lr is used
  std::int64_t versions = 0;        // the last ParamRecord::version
  bool clearing_checked = false;    // valid while the storage of no gradient and state changes
  SharedStateTensors shared_state;  // outlives the stepper's tables
  Stepper stepper;
  bool ever_capturable = false;    // some step counts may be on the device
  bool tunes = false;              // the options request tuning in steps
  bool tuning_is_settled = false;  // it is decided whether the stepper has a tuner
  jit::Agreement agree_on_tuning = {};
  jit::Mode mode = jit::Mode::train;     // for a rule with modes
  std::mutex stepping;                   // inside backward(), which uses one thread per device
  bool launching = false;                // with_rollback() has called its function
  std::optional<GradHooks> hooks;        // while step_in_backward() is on
  std::shared_ptr<Sharding> sharding;    // the ranks that share the state; null: it is all here
  std::shared_ptr<Reduction> reduction;  // of own gradients; null: they are means already
  std::shared_ptr<Offload> offload;      // copies in host memory; null: steps run on the GPU

  void resize(std::size_t count) {
    groups.resize(count);
    hyper_params.resize(count);
  }
  // The host transforms of all groups; empty if no group has one.
  TransformOfGroup transform() const {
    const bool any = std::any_of(groups.begin(), groups.end(),
                                 [](const Group& g) { return !g.transforms.empty(); });
    if (!any) return {};
    return [this](std::size_t g, int number, const std::vector<TransformedPart>& parameters) {
      // The device may skip this step. Matrices would then get the statistics of zeros.
      if (!groups[g].record.values().rule().matrices.empty() && is_skipped(extras)) return;
      std::vector<TransformCall> calls;
      for (const TransformedPart& one : parameters) {
        const StepCount& t = one.param->buffers->t;
        calls.push_back({one.values, groups[g].record.values(), t.counted() + 1, t.step_offset(),
                         one.param->matrices});
      }
      as_torch_error([&] { groups[g].transforms.at(static_cast<std::size_t>(number))(calls); });
    };
  }
  void start_gathering() {
    TORCH_CHECK(
        !launching,
        "jitstep: step() of this optimizer is running, and a host transform has called it once "
        "more. Call it after the step.");
    const StatesPlace place{states().end().current, states().bucket_count()};
    if (std::exchange(states_place, place) != place)
      for (Group& group : groups)
        for (ParamRecord& record : group.param_records) record.entry = nullptr;
    active.clear();
    inactive.clear();
    pending.clear();
    new_gradients.clear();
    materialized.clear();
  }
  // True if a parameter's storage and metadata are unchanged. If not, invalidates the cached data: the state may no
  // longer fit, kernel tables have the old address, and the parameter may share memory with others.
  bool check_storage(ParamRecord& record) {
    if (record.fingerprint.same_storage(*record.parameter)) return true;
    follow_storage(record);
    return false;
  }
  void follow_storage(ParamRecord& record);
  // Ids count in order of first appearance.
  int id_of(void* key) { return ids.emplace(key, static_cast<int>(ids.size())).first->second; }

  // ---- torch's part of the optimizer
  std::vector<ParamGroup>& param_groups() const { return optimizer->param_groups_; }
  States& states() const { return optimizer->state_; }
  torch::optim::OptimizerParamState* find_state(void* key) const {
    const auto found = states().find(key);
    return found == states().end() ? nullptr : found->second.get();
  }
  // The same without a search, if the state is where it was in the last step.
  torch::optim::OptimizerParamState* find_state(ParamRecord& record) const {
    const StateEntry* const known = record.entry;
    if (known != nullptr && known->has_value() && known->value.first == record.key)
      return known->value.second.get();
    const auto found = states().find(record.key);
    if (found == states().end()) return nullptr;
    record.entry = found.current;
    return found->second.get();
  }
  const Options& default_options() const;
  const Options& group_options(std::size_t group) const;
  Options& group_options(std::size_t group);
  const std::string& rule() const { return default_options().rule(); }
  const std::string& rule_of(std::size_t group) const;

  // ---- groups (optimizer_groups.cpp, early_state.cpp)
  ParamGroup merged(const ParamGroup& group) const;
  void check_group(const ParamGroup& group, const ParameterName& first,
                   ValidationPhase phase) const;
  void check_distinct() const;
  void check_distinct(const ParamGroup* more, const ParameterName& first) const;
  bool group_unchanged(std::size_t group) const;
  bool groups_unchanged() const;
  bool rule_moved(std::size_t group) const;
  void sync_groups();
  // Empty: the parameter is in no group.
  std::optional<std::size_t> group_of(const void* key) const;
  void move_lrs();
  void register_members(std::size_t group);
  std::map<void*, std::unique_ptr<ParamState>> early_states(const ParamGroup& group,
                                                            const ParameterName& first);
  void take_in(std::size_t group, std::map<void*, std::unique_ptr<ParamState>> states);
  std::vector<double> shared_values() const;

  // ---- steps (optimizer_step.cpp, optimizer_extras.cpp, optimizer_inputs.cpp)
  void step_all();
  void check_training() const;
  void switch_mode(jit::Mode to);
  void with_rollback(const std::function<void()>& launch);
  void wait_for_pending();
  void gather_inputs(Operation operation);
  bool gather_groups(Operation operation);
  bool gather_params(std::size_t group, std::size_t first, std::size_t last, Operation operation);
  void gather_param(ParamRecord& record, const torch::Tensor& p, std::int64_t group_revision,
                    Operation operation);
  void prepare_assigned(Options& options) const;
  void refresh_options(std::size_t group);
  void point_to_lr(std::size_t group);
  void check_has_lr(std::size_t group) const;
  // The gradient in a form that kernels can read, or null. An unchanged gradient is not checked again.
  const torch::Tensor* gradient_of(ParamRecord& record) {
    if (reduction) return reduced_gradient(record);
    // A parameter is a leaf, so Tensor::grad() and its warning about non-leaves are not needed.
    const torch::Tensor& grad = record.parameter->unsafeGetTensorImpl()->grad();
    if (record.gradient_checked && record.gradient.same_storage(grad)) return &grad;
    return new_gradient(record, grad);
  }
  const torch::Tensor* new_gradient(ParamRecord& record, const torch::Tensor& grad);
  void check_devices() const;
  void check_extras() const;
  void check_memory();
  void check_new_gradients();
  void check_numbers() const;
  void check_cleared();
  void count_steps();
  void clear_gradients();
  void keep_input(const torch::Tensor& parameter, std::size_t index, const torch::Tensor& value);
  const std::vector<torch::Tensor>* inputs_of(const ParamRecord& record) const;
  void forget_inputs();

  // ---- states (optimizer_states.cpp)
  void look_up(ParamRecord& record) const;
  bool add_pending(ParamRecord& record, Operation operation);
  std::set<int> ids_except(const std::set<const ParamState*>& excluded) const;
  std::vector<int> ids_of_pending() const;
  ParamState& state_for(const ParamRecord& record);
  void bind_states();
  void bind_shared_state();
  void restore_states();

  // ---- steps inside backward() (optimizer_in_backward.cpp)
  void hook_gradients();
  void check_hooks(const ParamGroup& added) const;
  void step_alone(const ParameterName& name);
  void collect_alone(const ParameterName& name);

  // ---- state in host memory (optimizer_offload.cpp). Without offload(), these do nothing.
  void start_offload(const OffloadOptions& options);
  void move_states_to_host();
  void bind_stored_state(const ParamRecord& record, const torch::Tensor& p);
  void use_host_copies();
  void return_parameters();
  StepExtras extras_of_step() const;

  // ---- ranks that share the state (optimizer_shard.cpp). Without them, together() only calls its argument, and
  // agree(), check_formats_of_part(), use_parts() and gather_parameters() do nothing.
  void shard(const std::shared_ptr<RankGroup>& ranks, const ShardOptions& options);
  void check_can_shard() const;
  void together(RankCall call, const std::function<void()>& action);
  void agree();
  void check_groups_fixed() const;
  void update_part(ParamRecord& record, const torch::Tensor& p) const;
  void check_formats_of_part(const ParamRecord& record, const jit::Plan& plan) const;
  const torch::Tensor* reduced_gradient(ParamRecord& record);
  void use_parts();
  void gather_parameters();
  void reduce_to_part(std::size_t group, std::size_t index, ParamState::Data& state) const;
  bool gather_states(std::map<void*, ParamState>& whole) const;
  torch::Tensor gather_weights(const void* key, const torch::Tensor& p,
                               const ParamState* state) const;

  // ---- checkpoints and reports (optimizer_archive.cpp, optimizer_parts.cpp, kernel_report.cpp)
  std::optional<std::vector<double>> shared_state_to_save() const;
  void write_index(const std::string& folder, const PartIndex& index,
                   const std::map<void*, ParamState>& outlines) const;
  void load_all(torch::serialize::InputArchive& archive, CheckpointFolder* folder);
  torch::Tensor read_parts(CheckpointFolder& folder, const ParameterName& name,
                           ParamState::Data& state, const jit::Plan& plan) const;
  void bind_archived(std::size_t group, ArchivedGroup& archived, Conversions& conversions,
                     CheckpointFolder* folder) const;
  void take_archived(std::size_t group, ArchivedGroup& archived);
  void renumber(const std::set<int>& taken);
  std::vector<KernelReport> compiled_kernels();
};

}  // namespace jitstep
