#include "optim/state/step_count.h"

#include <torch/types.h>

#include <utility>

namespace jitstep {

StepCount& StepCount::operator=(const StepCount& other) { return *this = StepCount(other); }

std::int64_t& StepCount::taken() const {
  if (!step_offset_.defined() || is_set()) return counted_;
  if (on_device_)
    counted_ = known_ = kBase - step_offset_.item<std::int64_t>();
  else
    counted_ -= std::exchange(step_offset_, {}).item<std::int64_t>();
  return counted_;
}

void StepCount::count_on_device(torch::Tensor counter) {
  known_ = taken();
  if (on_device_)
    step_offset_.copy_(counter);  // captured graphs hold its address
  else
    step_offset_ = std::move(counter);
  on_device_ = true;
}

void StepCount::count_on_host() {
  taken();
  step_offset_.reset();
  on_device_ = false;
}

}  // namespace jitstep
