// Runs steps: finds the kernel of each parameter, batches parameters with the same kernel, caches the kernels' tables,
// and launches. Depends on torch's tensors and streams, but on no rule and no option.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "jit/search/step_tuner.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/step.h"
#include "jitstep/reports.h"
#include "optim/state/state_buffers.h"
#include "optim/tensor/errors.h"

namespace jitstep {

/// Where a Stepper's tables have a parameter. Outdated as soon as one of the tokens differs.
struct TableRow {
  std::uint64_t tables = 0;           // identifies the tables; 0: in none
  std::int64_t version = 0;           // of the parameter
  bool by_loops = false;              // its kernel needs no aligned tensors
  std::size_t device = 0, batch = 0;  // indices into Stepper::State::devices and its batches
  std::size_t index = 0;              // among the batch's tensors
  jit::StepInput* input = nullptr;    // one of the device's
};

/// A parameter of steps. It outlives the tables that refer to it.
struct StepParam {
  ParameterName name = {};              // its group is an index into StepMembers::groups
  const torch::Tensor* p = nullptr;     // set for each step
  const torch::Tensor* grad = nullptr;  // set for each step; null: inactive
  const void* g = nullptr;  // address of the gradient's elements; not read when the mode changes
  /// Set for each step: the rule's inputs, in element order; an undefined tensor is not given. Null: none is given.
  const std::vector<torch::Tensor>* inputs = nullptr;
  StateBuffers* buffers = nullptr;  // null: no state yet
  /// Changes with p's storage, p's or the gradient's metadata, and the buffers.
  std::int64_t version = 0;
  TableRow row = {};  // written by the Stepper
  /// Its matrices of state within a step, as host transforms have replaced them.
  mutable std::map<std::string, torch::Tensor> matrices = {};
};

/// The parameters of a step.
struct StepMembers {
  const std::vector<StepParam*>& active;  // with gradients
  /// Parameters without a gradient in this step. Their rows stay in the tables, so that they can return at little cost.
  const std::vector<StepParam*>& inactive;
  const std::vector<HyperParams>& groups;  // one per parameter group; their t is ignored
};

/// Additional inputs of a step.
struct StepExtras {
  torch::Tensor grad_scale;  // float32, one element; undefined: gradients are not scaled
  torch::Tensor found_inf;   // float32, one element; undefined: no step is skipped
  bool clears = false;       // the step sets gradients to zero
  bool capturable = false;   // the device counts the step: every StepCount is_on_device()
};

/// The values of a parameter, or of its part, inside a step.
struct TransformedPart {
  const StepParam* param;
  torch::Tensor values;
};

/// Applies host transform number `number` of a group's rule: replaces the values of whole parameters.
using TransformOfGroup = std::function<void(std::size_t group, int number,
                                            const std::vector<TransformedPart>& parameters)>;

/// Matrices of state, and their new values.
using MatrixCopies = std::vector<std::pair<torch::Tensor, torch::Tensor>>;

/// The other ranks, for steps of parts of parameters. A step calls these functions in this order, and `exchange` again
/// for sums that read the result of a host transform.
class StepRanks {
 public:
  StepRanks() = default;
  StepRanks(const StepRanks&) = delete;
  StepRanks& operator=(const StepRanks&) = delete;
  virtual ~StepRanks() = default;

  /// After everything that may fail on this rank alone, before the first launch. Throws if ranks cannot go on together.
  virtual void agree() = 0;
  /// See jit::Exchange.
  virtual void exchange(const std::vector<jit::PartialSums>& partials) = 0;
  /// Applies host transform number `number` to whole parameters. `parts`: those with elements on this rank.
  virtual void transform(const std::vector<TransformedPart>& parts, int number,
                         const TransformOfGroup& transform) = 0;
};

/// Not thread-safe. Belongs to one optimizer.
class Stepper {
 public:
  Stepper();
  /// Waits for replays that read the tables of captured graphs.
  ~Stepper();
  Stepper(Stepper&&) noexcept;
  Stepper& operator=(Stepper&&) noexcept;

  /// Compiles, loads and checks everything that a step with these parameters needs. Throws before it changes anything.
  /// `shared_state`: the rule's shared state, or null. It must outlive the Stepper. `scaled`: the next steps have a
  /// grad_scale.
  void prepare(const std::vector<StepParam*>& active, const std::vector<StepParam*>& inactive,
               jit::SharedState* shared_state, bool scaled);

  /// One step of all parameters. Increments each parameter's t. Calls `prepare` if parameters, their specs or their
  /// layouts changed since the last step. Prepares memory and tables on all devices first. An error before the first
  /// launch, for example during a CUDA graph capture, changes nothing. If a launch fails, some parameters may have been
  /// stepped, but no t is incremented.
  /// `transform`: for groups whose rules have a host transform.
  /// With found_inf, the device decides whether it skips the step, and counts skipped steps in each StepCount's
  /// step_offset, which must exist. The host does not wait for the device.
  /// During a CUDA graph capture the step must be capturable and its tables must exist. The graph then owns the tables.
  /// They live as long as the Stepper.
  void step(const StepMembers& members, jit::SharedState* shared_state, const StepExtras& extras,
            const TransformOfGroup& transform = {});

  /// Tunes the following steps if all parameters are on one device. Null: does not tune.
  void tune(std::unique_ptr<jit::StepTuner> tuner);
  bool is_tuned() const { return tuner_ != nullptr; }

  /// Records the time of the last step, if it was a trial. Calls the user's TuningAgreement, which may throw: call it
  /// when the step is complete.
  void finish_trial();

  /// From the next prepare() on, steps update this rank's parts of parameters. Null: whole parameters. `ranks` must
  /// outlive this.
  void set_ranks(StepRanks* ranks) { ranks_ = ranks; }

  /// Switches parameters that have taken a step to another mode. Errors as for `step`. Ignores gradients.
  void switch_mode(jit::Mode to, const StepMembers& members,
                   jit::SharedState* shared_state = nullptr);

  /// Waits for the devices, and frees the tables of captured graphs. None of them may be replayed.
  void drop_captured();

  /// Later work on the current streams follows the last step, which may have used other streams.
  void wait_for_last_step();

  /// One report per prepared kernel. Empty before the first prepare().
  std::vector<KernelReport> kernels() const;

 private:
  struct State;

  bool update(const StepMembers& members, jit::SharedState* shared_state, const StepExtras& extras,
              int ahead);
  jit::Step* prepare_step(const StepMembers& members, jit::SharedState* shared_state,
                          const StepExtras& extras);
  void leave_to_graphs();
  void check_captures(const std::vector<StepParam*>& active) const;
  jit::Exchange exchange() const;
  jit::Step* tuned_step(bool tables_are_new, jit::SharedState* shared_state,
                        const StepExtras& extras);
  void activate(jit::Step* tuned);
  MatrixCopies launch(const StepMembers& members, jit::Step* tuned,
                      const TransformOfGroup& transform);
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<State>> captured_;  // tables that captured graphs use
  std::unique_ptr<jit::StepTuner> tuner_;         // null: steps are not tuned
  bool tuner_is_new_ = false;                     // it has not seen the tables yet
  std::optional<double> trial_seconds_;           // of a trial that finish_trial() records
  jit::Step* last_tuned_ = nullptr;               // the last step's; null: the default step
  StepRanks* ranks_ = nullptr;                    // null: no other ranks
};

}  // namespace jitstep
