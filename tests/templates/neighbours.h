// Floats about a place where a rounding changes.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

namespace jitstep::support {

/// The float nearest to x and its six neighbours on either side.
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

}  // namespace jitstep::support
