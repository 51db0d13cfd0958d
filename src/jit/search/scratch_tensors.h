// Tensors for tuning. A tuner never measures on a user's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// Copies from device memory to the host.
using DownloadFrom = std::function<void(void* to, const void* from, std::size_t bytes)>;

/// Dense tensors with gradients and state. The values are pseudo-random, and the same in each object.
class JITSTEP_API ScratchTensors {
 public:
  /// `numbers`: HyperParams of a step with options of this plan. The step number and the device pointers are replaced.
  /// The back end must outlive the tensors, and the tensors must outlive the steps.
  ScratchTensors(Backend& backend, const Plan& plan, const HyperParams& numbers,
                 const std::vector<std::vector<std::int64_t>>& shapes);

  /// The memory for tensors of these shapes, in bytes.
  static std::int64_t bytes(const Plan& plan, const std::vector<std::vector<std::int64_t>>& shapes);

  /// A Step of these tensors with one configuration. Steps of several configurations may alternate.
  Step step_by(const KernelConfig& config);
  /// Runs the next step, after the last step of any Step of these tensors.
  void run(Step& step);

  /// The bytes of all parameters and state.
  std::vector<std::byte> content(const DownloadFrom& download) const;

 private:
  struct Region {
    const void* at;
    std::size_t bytes;
  };

  void add(const std::vector<std::int64_t>& sizes, int id);
  void* filled(std::int64_t elements, Dtype dtype, std::uint64_t seed);

  Backend& backend_;
  Plan plan_;
  HyperParams numbers_;
  SharedState shared_state_;
  std::vector<std::shared_ptr<void>> held_;
  std::vector<StateStorage> states_;
  std::vector<StepTensor> tensors_;
  std::vector<StepInput> inputs_;
  std::vector<Region> regions_;
  std::int64_t t_ = 0;
};

}  // namespace jitstep::jit
