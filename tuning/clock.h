// What times are taken by.
#pragma once

#include <chrono>
#include <functional>

namespace jitstep::tuning {

/// Seconds since some moment.
using Clock = std::function<double()>;

/// The system's steady one.
inline double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace jitstep::tuning
