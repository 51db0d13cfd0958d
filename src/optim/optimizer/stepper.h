// Runs steps: finds the kernel of each parameter, groups parameters that share one, keeps the tables
// the kernels read, launches. Knows torch's tensors and streams; knows no rule and no option.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "jitstep/args.h"
#include "jitstep/jit/step.h"
#include "jitstep/kernel_report.h"
#include "jitstep/state_buffers.h"
#include "optim/optimizer/step_tuner.h"
#include "optim/tensor/errors.h"

namespace jitstep {

/// One parameter.
struct StepParameter {
  const torch::Tensor* p;
  const torch::Tensor* grad;  // null: it rests
  StateBuffers* state;
  ParameterName name;  // its group: an index into the numbers given to `step`
  int version = 0;     // another one when p lies elsewhere, or p or the gradient has another form
};

/// Whom a step is of.
struct StepMembers {
  const std::vector<StepParameter>& parameters;  // with gradients
  /// Without one in this step. What is known of them is kept, so that they may come back at little cost.
  const std::vector<StepParameter>& inactive;
  const std::vector<HyperParams>& groups;  // the numbers of each parameter group, whatever their t
};

/// What a step is given beside parameters, gradients and numbers.
struct StepExtras {
  torch::Tensor grad_scale;  // undefined: gradients are not divided by one
  torch::Tensor found_inf;   // undefined: no step is skipped; float32, one element, as grad_scale
  bool clears = false;       // it leaves zeros in the gradients
  bool capturable = false;   // the device counts the step: every StepCount is_on_device()
};

/// Replaces the values that the elements of some parameters of one group handed to its host transform.
using TransformOfGroup =
    std::function<void(std::size_t group, const std::vector<torch::Tensor>& values)>;

/// Adds a report, or its parameters to the report of the same kernel.
void add_kernel(std::vector<KernelReport>& reports, KernelReport one);

/// Not thread safe: belongs to one optimizer.
class Stepper {
 public:
  Stepper();
  ~Stepper();
  Stepper(Stepper&&) noexcept;
  Stepper& operator=(Stepper&&) noexcept;

  /// Compiles, loads and checks everything a step with these parameters needs. Throws before
  /// anything is changed. `common`: what the rule keeps for all of them, or null; it must outlive them.
  /// `scaled`: the steps to come have a grad_scale.
  void prepare(const std::vector<StepParameter>& parameters,
               const std::vector<StepParameter>& inactive, jit::SharedState* shared_state,
               bool scaled);

  /// One step of all parameters; counts each one's t. Calls `prepare` when there are others than were known, or
  /// their specs or layouts have changed since the last step. Memory and tables are made ready on all
  /// devices first: until then an Error, such as of a CUDA graph capture, leaves everything as it
  /// was. Only where a launch itself fails may parameters have been stepped; no t is counted then.
  /// stage: for groups whose rules have one.
  /// With found_inf the device skips the step or not, and counts that in each StepCount's lag, which is there;
  /// nobody waits for it. In a CUDA graph capture, of a capturable step whose tables are there, the tables go over to
  /// the graph, and stay as long as this does.
  void step(const StepMembers& rows, jit::SharedState* shared_state, const StepExtras& extras,
            const TransformOfGroup& transform = {});

  /// From now on steps are tuned, where all parameters are on one device.
  void tune(std::unique_ptr<StepTuner> tuner) { tuner_ = std::move(tuner); }

  /// Turns parameters that have taken a step to another mode, under the same conditions; their gradients
  /// are not looked at.
  void switch_mode(jit::Mode to, const StepMembers& rows, jit::SharedState* shared_state = nullptr);

  /// What it was prepared with, a report for each kernel; none before.
  std::vector<KernelReport> kernels() const;

 private:
  struct State;

  bool update(const StepMembers& rows, jit::SharedState* shared_state, const StepExtras& extras,
              int ahead);
  void leave_to_graphs();
  jit::Step* tuned_step(bool tables_are_new, jit::SharedState* shared_state,
                        const StepExtras& extras);
  void activate(jit::Step* tuned);
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<State>> captured_;  // which graphs repeat
  std::unique_ptr<StepTuner> tuner_;              // null: steps are not tuned
  jit::Step* last_tuned_ = nullptr;               // which took the last step; null: the usual one
};

}  // namespace jitstep
