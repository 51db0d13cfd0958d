// Parameters that share a kernel, and their launches: one for each half of a pass, one to apply.
#pragma once

#include <memory>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/machine.h"
#include "jitstep/jit/step_tables.h"
#include "jitstep/jit/unit.h"

namespace jitstep::jit {

/// What may change from step to step for one tensor of a group.
struct JITSTEP_API StepInput {
  const void* g = nullptr;
  int set = 0;           // index into the step's HyperSets
  bool aligned = false;  // p, g, extra and codes to 16 bytes
  bool operator==(const StepInput&) const = default;
};

/// A kernel, the tensors it steps and the tables and buffers of its launches. The machine must
/// outlive it; the tensors' memory must live as long as steps run. Belongs to one thread at a time.
class JITSTEP_API StepGroup {
 public:
  /// Compiles or finds the kernel and fills the tables. Throws before anything is changed.
  StepGroup(Machine& machine, const Plan& plan, const Variant& variant,
            const std::vector<StepTensor>& tensors);

  /// What it was made of; `size` counts tensors.
  const Kernel& kernel() const { return *kernel_; }
  const KernelSpec& spec() const { return spec_; }
  std::size_t size() const { return tables_.tensors.size(); }

 private:
  friend void prepare_step(const std::vector<StepGroup*>&,
                           const std::vector<std::vector<StepInput>>&,
                           const std::vector<HyperSet>&);
  friend void launch_step(const std::vector<StepGroup*>&);

  // Memory on the device that grows when it must.
  struct Buffer {
    std::shared_ptr<void> memory;
    std::size_t capacity = 0;
    void reserve(Machine& machine, std::size_t bytes);
  };
  // A table on the device, sent again only when it has changed.
  template <class T>
  struct DeviceTable {
    Buffer buffer;
    std::vector<T> sent;
    bool valid = false;  // the device has what was sent
    const T* data() const { return static_cast<const T*>(buffer.memory.get()); }
    void send(Machine& machine, const std::vector<T>& values);
  };
  struct Launch {
    int entry = 0;
    DeviceTable<Item> items;
  };
  // What a sum over all tensors needs beside the partials.
  struct SharedSum {
    std::vector<AllRecord> records;
    DeviceTable<AllRecord> tensors;
    Buffer work, coefficients;
  };

  void follow();
  void prepare(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& sets);
  void share_sums(const std::vector<StepGroup*>& groups);
  void share_sum(const PlannedReduction& r, const std::vector<StepGroup*>& groups);
  void append_records(const PlannedReduction& r, std::vector<AllRecord>& records) const;
  void launch(Launch& launch);
  template <class Visit>
  void visit_memory(const Visit& visit) const;

  Machine& machine_;
  KernelSpec spec_;
  std::vector<PlannedReduction> reductions_;
  std::shared_ptr<const Kernel> kernel_;
  std::unique_ptr<Launches> launches_;
  StepTables tables_;
  Args args_{};
  DeviceTable<TensorRecord> tensors_;
  DeviceTable<StepRecord> steps_;
  DeviceTable<HyperSet> sets_;
  std::vector<Launch> partials_, finish_;  // [pass]
  Launch apply_;
  std::vector<StepRecord> step_records_;
  std::vector<std::shared_ptr<void>> buffers_;
  std::vector<SharedSum> shared_sums_;  // [reduction]
};

/// Everything a step of all groups of one device needs beside its launches: memory and tables. Sums
/// over all tensors run through all groups. inputs[i] belongs to groups[i], one for each of its
/// tensors; HyperSet::t is the step's number. Throws before a parameter or its state has changed,
/// in a CUDA graph capture too; the step can then be tried again.
JITSTEP_API void prepare_step(const std::vector<StepGroup*>& groups,
                              const std::vector<std::vector<StepInput>>& inputs,
                              const std::vector<HyperSet>& sets);

/// The launches of the step that was prepared. If one of them fails, parameters may have been
/// stepped already.
JITSTEP_API void launch_step(const std::vector<StepGroup*>& groups);

/// prepare_step and launch_step: one step of all groups of one device.
JITSTEP_API void run_step(const std::vector<StepGroup*>& groups,
                          const std::vector<std::vector<StepInput>>& inputs,
                          const std::vector<HyperSet>& sets);

}  // namespace jitstep::jit
