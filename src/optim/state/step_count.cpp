#include "jitstep/step_count.h"

#include <torch/torch.h>

#include <utility>

namespace jitstep {

StepCount& StepCount::operator=(const StepCount& other) { return *this = StepCount(other); }

std::int64_t& StepCount::taken() const {
  if (lag_.defined()) counted_ -= std::exchange(lag_, {}).item<std::int64_t>();
  return counted_;
}

}  // namespace jitstep
