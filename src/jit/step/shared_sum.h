// One sum over the tensors of all batches of a step.
#pragma once

#include <vector>

#include "jit/base/args.h"
#include "jit/codegen/shared_sums.h"
#include "jit/step/launch_batch.h"

namespace jitstep::jit {

/// Tensor ids are below this number: the sum needs memory for each id up to the largest.
inline constexpr int kMaxTensorIds = 1 << 24;

/// Holds the list of partial sums of all batches with this sum, and a work buffer for adding them. All batches add the
/// same partial sums. Each batch has its own result of `finalize`.
class SharedSum {
 public:
  SharedSum(Backend& backend, const SumName& name, std::vector<LaunchBatch>& batches);

  const SumName& name() const { return name_; }

  /// Restricts the sum to active tensors. `inputs`: one per tensor of all batches.
  void exclude_inactive(Backend& backend, std::vector<LaunchBatch>& batches,
                        const std::vector<StepInput>& inputs);

  /// Allocates the results of `finalize`, one for each HyperParams of the step.
  void reserve_coefficients(Backend& backend, std::vector<LaunchBatch>& batches,
                            int hyper_params_count);

  /// Records the use of its memory on the current stream.
  void record_stream(Backend& backend) const;

 private:
  // A batch with this sum.
  struct Participant {
    std::size_t batch, first;  // `first`: index of its first tensor among those of all batches
    int number;                // of the reduction in the batch's kernel
    int reduction_layout;
    int terms;
    int bytes;  // of the coefficients
    DeviceBuffer coefficients = {};
  };

  std::vector<AllRecord> records_of(const std::vector<LaunchBatch>& batches,
                                    const std::vector<StepInput>& inputs) const;
  void send(Backend& backend, std::vector<LaunchBatch>& batches,
            const std::vector<AllRecord>& records);

  SumName name_;
  std::vector<Participant> participants_;
  DeviceTable<AllRecord> tensors_;
  DeviceBuffer work_;
};

/// All sums over all tensors of the batches.
std::vector<SharedSum> shared_sums(Backend& backend, std::vector<LaunchBatch>& batches);

}  // namespace jitstep::jit
