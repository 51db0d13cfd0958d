// How many steps a parameter has taken, also where its device decides about that.
#pragma once

#include <torch/optim/optimizer.h>  // has torch::Tensor, at a tenth of torch/torch.h

#include <cstdint>

#include "jitstep/jit/export.h"

namespace jitstep {

/// The steps that the host has counted, less those that found_inf has skipped. How many these are a counter on
/// the device knows; reading the number waits for it, counting on does not.
class JITSTEP_API StepCount {
 public:
  StepCount(std::int64_t taken = 0) : counted_(taken) {}  // NOLINT(google-explicit-constructor)
  StepCount(const StepCount& other) : counted_(other.taken()) {}
  StepCount(StepCount&&) noexcept = default;
  StepCount& operator=(const StepCount& other);
  StepCount& operator=(StepCount&&) noexcept = default;
  ~StepCount() = default;

  /// The steps taken. From then on there is no counter, until the next one is attached.
  std::int64_t& taken() const;
  operator std::int64_t() const { return taken(); }  // NOLINT(google-explicit-constructor)

  // ---- for the stepper

  /// As the host has counted: at least as many as were taken.
  std::int64_t counted() const { return counted_; }
  void count() { ++counted_; }
  /// The counter on the device, one int64 of no dimensions; undefined: nothing was skipped.
  const torch::Tensor& lag() const { return lag_; }
  /// `counter`: 0 so far.
  void attach(torch::Tensor counter) { lag_ = std::move(counter); }

 private:
  mutable std::int64_t
      counted_;  // mutable, as `lag`: both are brought up to date when somebody asks
  mutable torch::Tensor lag_;
};

}  // namespace jitstep
