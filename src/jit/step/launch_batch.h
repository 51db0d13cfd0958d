// One kernel and its tensors: tables, buffers and launches (two per pass, and one for `update_param`). A Step provides
// the data that several batches share.
#pragma once

#include <memory>
#include <vector>

#include "jit/base/args.h"
#include "jit/codegen/unit.h"
#include "jit/step/device_table.h"
#include "jit/step/step_tables.h"
#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// Launches an entry, and counts it for launch_count().
void launch(Launches& launches, int entry, const Args& args, bool backwards = false);

class LaunchBatch {
 public:
  /// Compiles or loads the kernel of the plan's unit and uploads the tables. `shared_state`: the buffers of
  /// Plan::shared_state, or null.
  LaunchBatch(Backend& backend, const Plan& plan, const KernelConfig& config, const Unit& source,
              const std::vector<StepTensor>& tensors, const SharedState* shared_state);

  const Plan& plan() const { return plan_; }
  const Kernel& kernel() const { return *kernel_; }
  const std::vector<TensorRecord>& tensors() const { return tables_.tensors; }
  /// True if tensor i is a part.
  bool is_part(std::size_t i) const { return tables_.whole[i] > 0; }
  /// The number of elements of tensor i or, if it is a part, of the whole tensor.
  std::int64_t elements(std::size_t i) const {
    return is_part(i) ? tables_.whole[i] : tables_.tensors[i].n;
  }
  /// True if some tensors are parts.
  bool has_parts() const { return !tables_.parts.empty(); }
  /// The layout flags of each tensor, without kAligned.
  const std::vector<int>& layout() const { return tables_.layout; }

  /// The record of a reduction. A SharedSum sets the fields that refer to other batches.
  ReductionRecord& reduction(int number) { return args_.reductions[number]; }
  const ReductionRecord& reduction(int number) const { return args_.reductions[number]; }

  /// Selects the tensor whose block writes the shared state. -1: none.
  void set_shared_state_writer(int tensor) { args_.shared_state_writer = tensor; }

  /// Excludes inactive tensors from the launches. `inputs`: one per tensor.
  void exclude_inactive(const StepInput* inputs);

  /// Sets the tables that the next launches read. `steps`: one record per tensor.
  void set_inputs(const StepRecord* steps, const HyperParams* hyper_params);

  /// As Launches::wait_for_last_step(). If the stream has changed, records the use of the batch's memory on the current
  /// stream.
  bool wait_for_last_step();

  /// The number of host transforms before a pass, and before the last launch.
  int section_of(int pass) const { return plan_.section_of(pass); }
  int transforms() const { return static_cast<int>(plan_.transform_passes.size()); }

  // ---- launches. No effect for a pass or a transform that the plan does not have, or for a pass of launch_apply()
  void launch_partials(int pass);
  void launch_finalize(int pass);
  void launch_host_transform(int transform);
  /// Launches `update_param`. With cache blocking (CPU), it first launches the passes from first_blocked_pass_ on. It
  /// does so for the tensors of one cache block after the other.
  void launch_apply();
  void launch_mode_switch(Mode to);
  void record_step() { launches_->record_step(); }
  void follow_capture() { launches_->follow_capture(); }

 private:
  using Items = DeviceTable<Item>;
  using Tensors = DeviceTable<TensorRecord>;

  void add_buffers(const ResolvedReduction& reduction);
  template <class Selection>
  void send_items(const Selection& select);
  void launch(int entry, const Items& items);
  void launch(int entry, const Items& items, const Tensors& tensors);
  void launch(int entry, const Items& items, int first, int end, bool backwards);

  Backend& backend_;
  Plan plan_;
  std::shared_ptr<const Kernel> kernel_;
  std::unique_ptr<Launches> launches_;
  Unit::Index entries_;
  StepTables tables_;
  int first_blocked_pass_ = 0;  // launch_apply() runs passes from this one on per cache block
  std::vector<int> cache_block_ends_;  // the end of each range of tensors that fit into the cache
  Args args_{};
  Tensors tensors_, parts_;
  std::vector<Items> partials_, finalize_;  // [pass]
  Items apply_;
  std::vector<DeviceBuffer> buffers_;  // partial sums and coefficients
};

}  // namespace jitstep::jit
