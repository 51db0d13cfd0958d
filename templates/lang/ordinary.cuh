// Arithmetic without branches for operands of ordinary size.
#pragma once
#include "port_gpu.cuh"

namespace jitstep {

// The operators. Compilers for GPUs make branches for operands with extreme exponents.
struct Ieee {
  template <class T>
  KHD static T quotient(T a, T b) {
    return a / b;
  }
  template <class T>
  KHD static T root(T x) {
    return sqrt(x);
  }
};

// The same bits as Ieee for ordinary operands (see OrdinaryOperands), in the steps that compilers for GPUs use.
struct Ordinary {
  KHD static float quotient(float a, float b) {
    const float near = near_reciprocal(b);
    const float inverse = fma(near, fma(near, -b, 1.0f), near);
    const float q = a * inverse;
    return fma(fma(q, -b, a), inverse, q);
  }
  // An operand that is not 0 stays the same when 2^-126 is added. That of 0 gets a finite inverse.
  KHD static float root(float x) {
    const float inverse = near_inverse_root(x + 0x1p-126f);
    const float near = x * inverse;
    return fma(fma(-near, near, x), inverse * 0.5f, near);
  }
};

// The extremes of the operands of several elements. Floats have the same order as their bits. Of bits less one, those
// of 0 are the largest.
class OrdinaryOperands {
 public:
  KHD void include_radicand(float x) {
    least_radicand_ = min(least_radicand_, bits_of(x) - 1);
    most_radicand_ = max(most_radicand_, bits_of(x));
  }
  KHD void include_dividend(float x) {
    const uint32 magnitude = bits_of(x) & 0x7fffffffu;
    least_dividend_ = min(least_dividend_, magnitude - 1);
    most_dividend_ = max(most_dividend_, magnitude);
    signed_dividend_ = min(signed_dividend_, static_cast<int>(bits_of(x)));
  }
  // Radicands are 0 or in (2^-100, 2^24), dividends or their negatives are 0 or in (2^-100, 2^60). A quotient of -0
  // would become 0.
  KHD bool are_ordinary() const {
    return least_radicand_ >= kLeast && most_radicand_ < bits_of(0x1p24f) &&
           least_dividend_ >= kLeast && most_dividend_ < bits_of(0x1p60f) &&
           signed_dividend_ != bit_cast<int>(-0.0f);
  }

 private:
  static constexpr uint32 kLeast = bit_cast<uint32>(0x1p-100f);
  uint32 least_radicand_ = 0xffffffffu, most_radicand_ = 0;
  uint32 least_dividend_ = 0xffffffffu, most_dividend_ = 0;
  int signed_dividend_ = 0;
};

}  // namespace jitstep
