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
/// outlive it; the tensors' memory must live as long as steps run.
class JITSTEP_API StepGroup {
 public:
  /// Compiles or finds the kernel and fills the tables. Throws before anything is changed.
  StepGroup(Machine& machine, const KernelSpec& spec, const Variant& variant,
            const std::vector<StepTensor>& tensors, const Catalog& catalog = default_catalog());

  const Kernel& kernel() const { return *kernel_; }
  const KernelSpec& spec() const { return spec_; }
  std::size_t size() const { return tables_.tensors.size(); }

 private:
  friend void run_step(const std::vector<StepGroup*>&, const std::vector<std::vector<StepInput>>&,
                       const std::vector<HyperSet>&);

  // A table on the device, sent again only when it has changed.
  template <class T>
  struct DeviceTable {
    std::shared_ptr<void> memory;
    std::vector<T> sent;
    const T* data() const { return static_cast<const T*>(memory.get()); }
    bool send(Machine& machine, const std::vector<T>& values);  // whether it was sent
  };
  struct Launch {
    int entry = 0;
    DeviceTable<Item> items;
  };

  void prepare(const std::vector<StepInput>& inputs, const std::vector<HyperSet>& sets);
  void share_sums(const std::vector<StepGroup*>& groups);
  void launch(Launch& launch);
  void append_records(const PlannedReduction& r, std::vector<AllRecord>& records) const;

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
  // What a sum over all tensors needs beside the partials.
  struct SharedSum {
    DeviceTable<AllRecord> tensors;
    std::shared_ptr<void> work, coefficients;
    std::size_t sets = 0;
  };
  void share_sum(const PlannedReduction& r, const std::vector<StepGroup*>& groups);
  std::vector<SharedSum> shared_sums_;  // [reduction]
};

/// One step of all groups of one device: sums over all tensors run through all of them.
/// inputs[i] belongs to groups[i], one for each of its tensors; HyperSet::t is the step's number.
JITSTEP_API void run_step(const std::vector<StepGroup*>& groups,
                          const std::vector<std::vector<StepInput>>& inputs,
                          const std::vector<HyperSet>& sets);

}  // namespace jitstep::jit
