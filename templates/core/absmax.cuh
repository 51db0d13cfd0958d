// The scale of a block: its largest finite magnitude.
#pragma once
#include "contract.cuh"

namespace jitstep {

struct Scale {
  float scale;
};

// Non-negative floats order as their bits do. A value that is not finite does not count.
KHD uint32 magnitude_key(float x) {
  const uint32 magnitude = bits_of(x) & 0x7fffffffu;
  return magnitude & (0u - static_cast<uint32>(magnitude < 0x7f800000u));
}

// What x is multiplied by to lie in [-1, 1]; 0 for a block too small to be divided by.
KHD float inverse_of(const Scale& s) { return s.scale >= 0x1p-126f ? 1 / s.scale : 0.0f; }

// To [0, 1], as integers order, which is as floats do; a NaN becomes 0 or 1.
KHD float unit_clamped(float y) {
  const int bits = static_cast<int>(bits_of(y));
  return float_of(static_cast<uint32>(min(max(bits, 0), 0x3f800000)));
}

// -0 would otherwise come out of a negative code in a block of zeros.
KHD float scaled(float value, const Scale& s) { return fma(value, s.scale, 0.0f); }

}  // namespace jitstep
