// One sum over the tensors of all batches of a step.
#pragma once

#include <vector>

#include "jit/codegen/shared_sums.h"
#include "jit/step/launch_batch.h"

namespace jitstep::jit {

/// Where the batches that take a sum find each other's partials, and room to add them up in. All of them
/// add up the same; what `finalize` makes of it is each batch's own.
class SharedSum {
 public:
  SharedSum(Backend& backend, const SumName& name, std::vector<LaunchBatch>& batches);

  const SumName& name() const { return name_; }

  /// Takes the sum over those tensors that do not rest; `inputs` of all batches.
  void choose(Backend& backend, std::vector<LaunchBatch>& batches,
              const std::vector<StepInput>& inputs);

  /// Room for what `finalize` makes of each of the step's sets.
  void reserve_coefficients(Backend& backend, std::vector<LaunchBatch>& batches,
                            int hyper_params_count);

  /// Its memory is used on the stream that is current.
  void record_stream(Backend& backend) const;

 private:
  // A batch that takes the sum.
  struct Taker {
    std::size_t batch, first;  // and the number of its first tensor among all
    int number;                // of the reduction in its kernel
    int reduction_layout;
    int terms;
    int bytes;  // of its coefficients
    DeviceBuffer coefficients = {};
  };

  std::vector<AllRecord> records_of(const std::vector<LaunchBatch>& batches,
                                    const std::vector<StepInput>& inputs) const;
  void send(Backend& backend, std::vector<LaunchBatch>& batches,
            const std::vector<AllRecord>& records);

  SumName name_;
  std::vector<Taker> takers_;
  DeviceTable<AllRecord> tensors_;
  DeviceBuffer work_;
};

/// All sums over all tensors that any of the batches takes.
std::vector<SharedSum> shared_sums(Backend& backend, std::vector<LaunchBatch>& batches);

}  // namespace jitstep::jit
