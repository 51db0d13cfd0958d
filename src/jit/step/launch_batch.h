// One kernel and the tensors it steps: its tables, its buffers and its launches, two for each pass and one
// to apply. What it shares with others in a step, a Step gives it.
#pragma once

#include <memory>
#include <vector>

#include "jit/step/device_table.h"
#include "jit/step/step_tables.h"
#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/shared_state.h"
#include "jitstep/jit/step.h"
#include "jitstep/jit/unit.h"

namespace jitstep::jit {

/// A launch that launch_count() counts.
void launch(Launches& launches, int entry, const Args& args);

class LaunchBatch {
 public:
  /// Compiles or finds the kernel of the plan's unit and sends the tables. `common`: what Plan::common lies in, or
  /// null.
  LaunchBatch(Backend& backend, const Plan& plan, const KernelConfig& config, const Unit& source,
              const std::vector<StepTensor>& tensors, const SharedState* shared_state);

  const Plan& plan() const { return plan_; }
  const Kernel& kernel() const { return *kernel_; }
  const std::vector<TensorRecord>& tensors() const { return tables_.tensors; }
  /// Of each tensor, without kAligned.
  const std::vector<int>& layout() const { return tables_.layout; }

  /// Where a reduction finds what lies outside of its batch.
  ReductionRecord& reduction(int number) { return args_.reductions[number]; }
  const ReductionRecord& reduction(int number) const { return args_.reductions[number]; }

  /// Has one of its tensors store the memory of all; -1: none.
  void set_shared_state_writer(int tensor) { args_.shared_state_writer = tensor; }

  /// Leaves out of its launches what rests; `inputs` has one for each tensor.
  void choose(const StepInput* inputs);

  /// The next launches read these; `steps` has one record for each tensor.
  void set_inputs(const StepRecord* steps, const HyperParams* hyper_params, int hyper_params_count);

  /// As Launches does it; from now on its memory is used on the stream that is current.
  bool wait_for_last_step();

  // ---- launches; nothing for a pass that it does not have
  void launch_partials(int pass);
  void launch_finalize(int pass);
  void launch_host_transform();
  void launch_apply();
  void launch_mode_switch(Mode to);
  void record_step() { launches_->record_step(); }
  void follow_capture() { launches_->follow_capture(); }

 private:
  using Items = DeviceTable<Item>;

  void add_buffers(const ResolvedReduction& reduction);
  template <class Chosen>
  void send_items(const Chosen& chosen);
  int apply_entry() const;
  void launch(int entry, const Items& items);

  Backend& backend_;
  Plan plan_;
  std::shared_ptr<const Kernel> kernel_;
  std::unique_ptr<Launches> launches_;
  StepTables tables_;
  Args args_{};
  DeviceTable<TensorRecord> tensors_;
  std::vector<Items> partials_, finish_;  // [pass]
  Items apply_;
  std::vector<DeviceBuffer> buffers_;  // partial sums and coefficients
};

}  // namespace jitstep::jit
