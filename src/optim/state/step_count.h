// The number of steps that a parameter has taken, if the host counts, if the device skips steps, or if the device
// counts.
#pragma once

#include <torch/optim/optimizer.h>  // torch::Tensor, in a tenth of the compile time of torch/torch.h

#include <cstdint>

namespace jitstep {

/// Steps counted on the host minus the steps that found_inf skipped. A counter on the device has the number of skipped
/// steps. Reading the step count waits for the device, but counting does not. If steps are replayed without the host,
/// as in a CUDA graph, the device counts all steps.
class StepCount {
 public:
  /// `taken` steps, none of them skipped. A copy has its source's count and no counter on the device.
  StepCount(std::int64_t taken = 0) : counted_(taken) {}  // NOLINT(google-explicit-constructor)
  StepCount(const StepCount& other) : counted_(other.taken()) {}
  StepCount(StepCount&&) noexcept = default;
  StepCount& operator=(const StepCount& other);
  StepCount& operator=(StepCount&&) noexcept = default;
  ~StepCount() = default;

  /// The steps taken. Reading it detaches the counter of skipped steps until the next attach().
  std::int64_t& taken() const;
  operator std::int64_t() const { return taken(); }  // NOLINT(google-explicit-constructor)

  // ---- for the stepper

  /// Steps counted by the host, at least as many as were taken. 1 if the device counts, unless is_set().
  std::int64_t counted() const { return on_device_ && !is_set() ? kBase : counted_; }
  void count() { counted_ += on_device_ ? 0 : 1; }
  /// The number to subtract from `counted()`: one int64 without dimensions on the device. Undefined means 0.
  const torch::Tensor& step_offset() const { return step_offset_; }
  /// Lets the device count skipped steps in `counter`, which must be 0.
  void attach(torch::Tensor counter) { step_offset_ = std::move(counter); }

  /// True if the device counts all steps.
  bool is_on_device() const { return on_device_; }
  /// True if the host has set a number that the device does not have yet.
  bool is_set() const { return on_device_ && counted_ != known_; }
  /// The value that the counter of a counting device must have now.
  std::int64_t step_offset_now() const { return kBase - taken(); }
  /// Lets the device count all steps. `counter` must have the value step_offset_now(), now or later.
  void count_on_device(torch::Tensor counter);
  /// Lets the host count again. Waits for the device.
  void count_on_host();

 private:
  static constexpr std::int64_t kBase = 1;

  // Mutable because reading the count updates both from the device.
  mutable std::int64_t counted_;
  mutable std::int64_t known_ = 0;  // the device's number when it was last read
  mutable torch::Tensor step_offset_;
  bool on_device_ = false;
};

}  // namespace jitstep
