// Comparisons and statistics of floating-point numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace jitstep::jit {

/// Whether two numbers are equal. NaN equals NaN.
inline bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// The quantile of the values for a share from 0 to 1: 0.5 is the median. Interpolates between the two nearest values,
/// as numpy does by default. 0 without values.
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double location = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(location);
  const double rest = location - static_cast<double>(below);
  const double next = values[std::min(below + 1, values.size() - 1)];
  return values[below] + rest * (next - values[below]);
}

}  // namespace jitstep::jit
