// The clock of measurements. Tests replace it.
#pragma once

#include <chrono>
#include <functional>

namespace jitstep::tuning {

/// Returns seconds since an arbitrary time.
using Clock = std::function<double()>;

/// The system's steady clock.
inline double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace jitstep::tuning
