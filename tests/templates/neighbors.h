// Floats around a rounding threshold.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace jitstep::support {

/// The float nearest to x and its six neighbors on either side.
inline std::vector<float> around(double x) {
  const float largest = std::numeric_limits<float>::max();
  std::vector<float> near = {static_cast<float>(x)};
  float below = near[0], above = near[0];
  for (int ulp = 0; ulp < 6; ++ulp) {
    near.push_back(below = std::nextafter(below, -largest));
    near.push_back(above = std::nextafter(above, largest));
  }
  return near;
}

/// The median of the floats between two others.
inline float between(float low, float high) {
  const auto rank = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return std::int64_t{bits < 0 ? std::numeric_limits<std::int32_t>::min() - bits : bits};
  };
  const std::int64_t middle = (rank(low) + rank(high)) >> 1;
  return std::copysign(std::bit_cast<float>(static_cast<std::int32_t>(std::abs(middle))),
                       static_cast<float>(middle));
}

/// For each value except the last: the smallest float that `keep` maps to a later value. `keep` maps floats to their
/// stored values. The values must be in ascending order and must be fixed points of `keep`.
template <class Keep>
std::vector<float> thresholds_of(const std::vector<float>& values, const Keep& keep) {
  std::vector<float> below(values.begin(), values.end() - 1),
      above(values.begin() + 1, values.end());
  std::vector<float> middle(below.size());
  for (int halving = 0; halving < 32; ++halving) {
    for (std::size_t i = 0; i < middle.size(); ++i) middle[i] = between(below[i], above[i]);
    const std::vector<float> kept = keep(middle);
    for (std::size_t i = 0; i < middle.size(); ++i)
      (kept[i] == values[i] ? below : above)[i] = middle[i];
  }
  return above;
}

}  // namespace jitstep::support
