#include "jitstep/step_count.h"

#include <torch/types.h>

#include <utility>

namespace jitstep {

StepCount& StepCount::operator=(const StepCount& other) { return *this = StepCount(other); }

std::int64_t& StepCount::taken() const {
  if (!lag_.defined() || is_set()) return counted_;
  if (on_device_)
    counted_ = known_ = kBase - lag_.item<std::int64_t>();
  else
    counted_ -= std::exchange(lag_, {}).item<std::int64_t>();
  return counted_;
}

void StepCount::count_on_device(torch::Tensor counter) {
  known_ = taken();
  if (on_device_)
    lag_.copy_(counter);  // graphs know where it is
  else
    lag_ = std::move(counter);
  on_device_ = true;
}

void StepCount::count_on_host() {
  taken();
  lag_.reset();
  on_device_ = false;
}

}  // namespace jitstep
