// atan2 and tanh of elements, of float or double, from + - * / and fma only: the same bits on every target, no branches
// and no calls. Every argument is valid, with the special cases of C. The error is at most 2 ulp (atan2) and 3 ulp
// (tanh).
#pragma once
#include "elementary.cuh"

namespace jitstep {
namespace elementary {

// Constants of T. kQuarterPi and kLogOf2 have zeros at their end, so that small integers times them are exact.
template <class T>
struct ElementConstants;
template <>
struct ElementConstants<float> {
  static constexpr float kQuarterPi = 0x1.921fbp-1f, kQuarterPiRest = 0x1.5110b4p-23f;
  static constexpr float kLogOf2 = 0x1.62e4p-1f, kLogOf2Rest = 0x1.7f7d1cp-20f;
  static constexpr float kLog2OfE = 0x1.715476p+0f;
  static constexpr float kToNearest = 0x1.8p23f;  // x + kToNearest - kToNearest is a whole number
  static constexpr float kLarge = 0x1p126f;       // the sum of two smaller numbers is finite
  static constexpr int kAtanPower = 23, kExpPower = 9;
  KHD static float power_of_two(int n) { return float_of(static_cast<uint32>(n + 127) << 23); }
};
template <>
struct ElementConstants<double> {
  static constexpr double kQuarterPi = 0x1.921fb54442d18p-1, kQuarterPiRest = 0x1.1a62633145c07p-55;
  static constexpr double kLogOf2 = 0x1.62e42fefa3ap-1, kLogOf2Rest = -0x1.0ca86c3898dp-49;
  static constexpr double kLog2OfE = 0x1.71547652b82fep+0;
  static constexpr double kToNearest = 0x1.8p52;
  static constexpr double kLarge = 0x1p1022;
  static constexpr int kAtanPower = 51, kExpPower = 15;
  KHD static double power_of_two(int n) { return elementary::power_of_two(n); }
};

// size with the sign of x. size is not negative.
template <class T>
KHD T with_sign_of(T x, T size) {
  return number_of(bits_of(size) | (bits_of(x) & bits_of(T(-0.0))));
}

// atan(z) for |z| <= 1/2: z - z^3 / 3 + z^5 / 5 - ...
template <class T>
KHD T atan_of_small(T z) {
  const T minus_square = -z * z;
  T tail = 0;
  UNROLL
  for (int k = ElementConstants<T>::kAtanPower; k > 1; k -= 2)
    tail = fma(tail, minus_square, 1 / T(k));
  return fma(z * minus_square, tail, z);
}

// e^-x - 1 for x in [0, 40]: 2^-n e^r - 1 with |r| < 0.35.
template <class T>
KHD T exp_minus_one_of_negative(T x) {
  using C = ElementConstants<T>;
  const T n = fma(x, C::kLog2OfE, C::kToNearest) - C::kToNearest;
  const T r = fma(n, C::kLogOf2Rest, fma(n, C::kLogOf2, -x));
  T factorial = 1, tail = 0;
  UNROLL
  for (int k = 2; k <= C::kExpPower; ++k) factorial *= static_cast<T>(k);
  UNROLL
  for (int k = C::kExpPower; k > 1; factorial /= static_cast<T>(k--))
    tail = fma(tail, r, 1 / factorial);
  const T power = C::power_of_two(-static_cast<int>(n));
  return fma(power, fma(r * r, tail, r), power - 1);
}

}  // namespace elementary

// The angle of the point (x, y) in [-pi, pi]. If an argument is NaN, the result is NaN.
template <class T>
KHD T atan2(T y, T x) {
  using C = elementary::ElementConstants<T>;
  const T width = abs(x), height = abs(y);
  const bool steep = height > width;
  const T longer = chosen(steep, height, width), shorter = chosen(steep, width, height);
  // Of infinite lengths, only whether both are infinite matters.
  const bool infinite = longer == T(kInfinity);
  const T unit = chosen(longer < C::kLarge, T(1), T(0.25));
  const T a = chosen(infinite, chosen(shorter == longer, T(1), T(0)), shorter * unit);
  const T b = chosen(infinite | (longer == 0), T(1), longer * unit);
  // Near the diagonal, atan(a / b) = pi / 4 + atan((a - b) / (a + b)), and a - b is exact.
  const bool diagonal = a + a > b, left = bits_of(x) >= bits_of(T(-0.0));
  const T z = chosen(diagonal, a - b, a) / chosen(diagonal, a + b, b);
  // The angle is some eighths of a turn, plus or minus atan(z).
  T eighths = chosen(diagonal, T(1), T(0));
  eighths = chosen(steep, 2 - eighths, eighths);
  eighths = chosen(left, 4 - eighths, eighths);
  const T rest = elementary::atan_of_small(chosen(steep != left, -z, z));
  const T angle = eighths * C::kQuarterPi + fma(eighths, C::kQuarterPiRest, rest);
  return chosen((x == x) & (y == y), elementary::with_sign_of(y, abs(angle)), x + y);
}

// The hyperbolic tangent: -(e^-2x - 1) / (e^-2x + 1). From 20 on it is 1.
template <class T>
KHD T tanh(T x) {
  const T less = elementary::exp_minus_one_of_negative(2 * min(abs(x), T(20)));
  return chosen(x == x, elementary::with_sign_of(x, abs(less) / (less + 2)), x);
}

}  // namespace jitstep
