// Tensors that belong to nobody, to try a kernel on: what a tuner measures and compares never is a user's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "jitstep/jit/backend.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/shared_state.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {

/// The way back from a machine's memory.
using DownloadFrom = std::function<void(void* to, const void* from, std::size_t bytes)>;

/// Dense tensors with gradients and state, filled with the same ordinary numbers whenever they are made.
class JITSTEP_API ScratchTensors {
 public:
  /// `numbers`: of a step under the options that the plan is for; its step number and what lies on the device are not
  /// taken over. The machine must outlive the tensors, and they the steps.
  ScratchTensors(Backend& backend, const Plan& plan, const HyperParams& numbers,
                 const std::vector<std::vector<std::int64_t>>& shapes);

  /// What they take, in bytes.
  static std::int64_t bytes(const Plan& plan, const std::vector<std::vector<std::int64_t>>& shapes);

  /// The steps of these tensors by one configuration. Several may take turns.
  Step step_by(const KernelConfig& config);
  /// One step more, whoever took the last one.
  void run(Step& step);

  /// Everything that steps have left, byte for byte.
  std::vector<std::byte> content(const DownloadFrom& download) const;

 private:
  struct Part {
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
  std::vector<Part> parts_;
  std::int64_t t_ = 0;
};

}  // namespace jitstep::jit
