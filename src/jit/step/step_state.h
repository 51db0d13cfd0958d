// The data of a Step, and the phases of its steps.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "jit/step/launch_batch.h"
#include "jit/step/shared_sum.h"
#include "jit/step/step_counter.h"
#include "jit/step/transform_values.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// The device copies of a step's inputs.
struct DeviceTables {
  DeviceTable<StepRecord> steps = {};
  DeviceTable<HyperParams> hyper_params = {};
  TransformValues transformed = {};
};

/// Only one thread at a time may use it.
struct Step::State {
  // Which launches of the step remain.
  enum class Phase { idle, prepared, reduced };

  Backend& backend;
  std::vector<ConfigChoice> choices = {};  // one per batch
  std::vector<LaunchBatch> batches = {};
  std::vector<SharedSum> sums = {};
  std::vector<const TensorRecord*> tensors = {};  // of all batches
  std::vector<char> inactive = {};       // tensors that the work items exclude; empty: unknown
  std::vector<StepInput> inputs = {};    // that `records` are of; empty: of a mode switch
  std::vector<StepRecord> records = {};  // of all tensors
  DeviceTables live = {};
  std::deque<DeviceTables> captured = {};   // one per captured step; each replay uploads it again
  std::optional<StepCounter> counter = {};  // if the device counts steps
  bool capturing = false;
  SharedState* shared_state = nullptr;  // null if the caller gave none
  // With shared state: the HyperParams of a step, with the global step.
  std::vector<HyperParams> numbered_params = {};
  int passes = 0;
  int transforms = 0;  // host transforms of the batch that has most
  Phase phase = Phase::idle;
  std::size_t hyper_params_count = 0;    // that `inputs` may refer to
  bool work_is_current = false;          // the work items exclude the inactive `inputs`
  bool has_writer = false;               // a tensor writes the shared state in this step
  bool buffers_checked = false;          // whether check_buffers() has succeeded
  std::optional<Mode> target_mode = {};  // of a prepared mode switch; empty: a step
  Exchange exchange = {};                // of partial sums, for parts of tensors

  void choose_shared_state_writer();
  void add_batches(const std::vector<Batch>& given);
  void exclude_inactive(const std::vector<StepInput>& now);
  void write_records(const std::vector<StepInput>& now, std::size_t hyper_params);
  void wait_for_last_step();
  void follow_capture();
  void reserve_transformed(const std::vector<StepInput>& now);
  void check_shared_options(const std::vector<StepInput>& now,
                            const std::vector<HyperParams>& hyper_params) const;
  DeviceTables& device_tables() { return capturing ? captured.back() : live; }
  void send(const std::vector<StepInput>& now, const std::vector<HyperParams>& hyper_params);
  void prepare(const std::vector<StepInput>& now, const std::vector<HyperParams>& hyper_params);
  std::vector<PartialSums> partials_of(int pass, int section) const;
  void check_exchange() const;
  void launch_sums(int section);
  void launch_host_transform(int number, const HostTransform& transform);
  void finish_step();
};

}  // namespace jitstep::jit
