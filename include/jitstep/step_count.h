// How many steps a parameter has taken, also where its device decides about that, or counts them itself.
#pragma once

#include <torch/optim/optimizer.h>  // has torch::Tensor, at a tenth of torch/torch.h

#include <cstdint>

#include "jitstep/jit/export.h"

namespace jitstep {

/// The steps that the host has counted, less those that found_inf has skipped. How many these are a counter on
/// the device knows; reading the number waits for it, counting on does not. Where steps are repeated without the
/// host, as by a CUDA graph, the device counts all of them.
class JITSTEP_API StepCount {
 public:
  /// Of steps that are all taken. A copy has those of its source and no counter on the device.
  StepCount(std::int64_t taken = 0) : counted_(taken) {}  // NOLINT(google-explicit-constructor)
  StepCount(const StepCount& other) : counted_(other.taken()) {}
  StepCount(StepCount&&) noexcept = default;
  StepCount& operator=(const StepCount& other);
  StepCount& operator=(StepCount&&) noexcept = default;
  ~StepCount() = default;

  /// The steps taken. From then on there is no counter of skipped ones, until the next one is attached.
  std::int64_t& taken() const;
  operator std::int64_t() const { return taken(); }  // NOLINT(google-explicit-constructor)

  // ---- for the stepper

  /// As the host has counted: at least as many as were taken. 1 where the device counts, unless is_set().
  std::int64_t counted() const { return on_device_ && !is_set() ? kBase : counted_; }
  void count() { counted_ += on_device_ ? 0 : 1; }
  /// What is to be taken from `counted()`: one int64 of no dimensions on the device; undefined: nothing.
  const torch::Tensor& step_offset() const { return step_offset_; }
  /// Has the device count the steps that it skips. `counter`: 0 so far.
  void attach(torch::Tensor counter) { step_offset_ = std::move(counter); }

  /// Whether the device counts all steps.
  bool is_on_device() const { return on_device_; }
  /// Whether a number was set since that the device does not know.
  bool is_set() const { return on_device_ && counted_ != known_; }
  /// What the counter of a device that counts is to hold now.
  std::int64_t step_offset_now() const { return kBase - taken(); }
  /// Has the device count all steps. `counter`: lag_now(), or to become that.
  void count_on_device(torch::Tensor counter);
  /// Has the host count again; waits for the device.
  void count_on_host();

 private:
  static constexpr std::int64_t kBase = 1;

  mutable std::int64_t
      counted_;  // mutable, as `lag`: both are brought up to date when somebody asks
  mutable std::int64_t known_ = 0;  // what the device said when it was last asked
  mutable torch::Tensor step_offset_;
  bool on_device_ = false;
};

}  // namespace jitstep
