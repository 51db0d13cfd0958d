// exp, exp2, log, log2, pow and cbrt from + - * / and fma only, so that their bits are the same on every target.
// Every argument is valid, also zeros, infinities, NaN and subnormal numbers (pow as in C). The error is at most 0.53
// ulp (log, log2 and cbrt: 0.501). A result that a double can represent is exact. They are for `prepare` and
// `finalize`: all take and return double, and long parts are calls. The float cbrt, log2_of_element and
// exp2_of_element are for elements: they have no branches and no calls.
#pragma once
#include "port.cuh"

namespace jitstep {
namespace elementary {

// The number high + low. low is about the rounding error of high (Dekker, Numerische Mathematik 18, 1971).
struct DoubleDouble {
  double high, low;
};

inline constexpr DoubleDouble kLog2OfE = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
inline constexpr DoubleDouble kTwiceLog2OfE = {0x1.71547652b82fep+1, 0x1.777d0ffda0d24p-55};
inline constexpr DoubleDouble kLogOf2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr DoubleDouble kThird = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
inline constexpr DoubleDouble kFifth = {0x1.999999999999ap-3, -0x1.999999999999ap-57};

// The exact a + b. a is 0, or not smaller than b in magnitude.
KHD DoubleDouble sum(double a, double b) {
  const double high = a + b;
  return {high, b - (high - a)};
}
// The exact a * b.
KHD DoubleDouble product(double a, double b) {
  const double high = a * b;
  return {high, fma(a, b, -high)};
}
KHD DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble s = sum(a.high, b.high);
  return sum(s.high, s.low + (a.low + b.low));
}
KHD DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble p = product(a.high, b.high);
  return sum(p.high, p.low + fma(a.high, b.low, a.low * b.high));
}

// 2^n, if that is a normal number.
KHD double power_of_two(int64 n) { return double_of(static_cast<uint64>(n + 1023) << 52); }

// x 2^n for x in [0.7, 1.5], rounded once, also if the result is subnormal.
KHD double scaled(DoubleDouble x, int64 n) {
  double value = x.high;
  if (n < -1021) {
    // The last bit of limit + x has the value of the smallest subnormal number.
    const double limit = power_of_two(-1022 - n);
    if (x.high < limit) {
      const DoubleDouble rounded = sum(limit, x.high);
      value = rounded.high + (rounded.low + x.low) - limit;
    }
  }
  const int64 half = n >> 1;
  return value * power_of_two(half) * power_of_two(n - half);
}

// 2^x, with a relative error of 2^-58 before rounding. x.high is not NaN. x.low may be NaN if x.high is
// out of range.
SLOW_PATH double exp2_of(DoubleDouble x) {
  if (x.high >= 1025) return kInfinity;
  if (x.high <= -1080) return 0;
  const double whole = x.high + 0x1.8p52 - 0x1.8p52;  // to nearest
  const DoubleDouble r = sum(x.high - whole, x.low) * kLogOf2;
  // e^r for |r| < 0.35: 1 + r + r^2 / 2 in twice the precision, r^3 / 3! + ... + r^15 / 15! in double.
  double factorial = 1307674368000.0, tail = 0;
  UNROLL
  for (int n = 15; n > 2; factorial /= n--) tail = fma(tail, r.high, 1 / factorial);
  const DoubleDouble square = product(r.high, r.high);
  const double rest = fma(square.high * r.high, tail, fma(r.low, r.high, r.low) + square.low / 2);
  const DoubleDouble linear = sum(1, r.high);
  const DoubleDouble most = sum(linear.high, square.high / 2);
  return scaled(sum(most.high, most.low + (linear.low + rest)), static_cast<int64>(whole));
}

// log2(x) for finite x > 0, with a relative error of 2^-69.
SLOW_PATH DoubleDouble log2_of(double x) {
  const bool subnormal = x < 0x1p-1022;
  const uint64 bits = bits_of(subnormal ? x * 0x1p54 : x);
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)); s = (m - 1) / (m + 1).
  const int64 n = static_cast<int64>(bits - 0x3fe6a09e667f3bcdull) >> 52;
  const double m = double_of(bits - (static_cast<uint64>(n) << 52));
  const DoubleDouble below = sum(1, m);
  const double near = (m - 1) / below.high;
  const double missing = fma(-near, below.high, m - 1) - near * below.low;
  const DoubleDouble s = sum(near, missing / below.high), z = s * s;
  // log(m) / 2 = s + s^3 / 3 + s^5 / 5 + ... + s^27 / 27 for |s| < 0.172.
  double tail = 0;
  UNROLL
  for (int k = 27; k > 5; k -= 2) tail = fma(tail, z.high, 1.0 / k);
  const DoubleDouble series = kThird + z * sum(kFifth.high, fma(z.high, tail, kFifth.low));
  const DoubleDouble fraction = kTwiceLog2OfE * (s + s * (z * series));
  return DoubleDouble{static_cast<double>(n - (subnormal ? 54 : 0)), 0} + fraction;
}

KHD bool has_logarithm(double x) { return x > 0 && x < kInfinity; }
KHD double logarithm_beyond(double x) { return x < 0 ? kNaN : x == 0 ? -kInfinity : x; }

// a^y for a >= 0. Neither is NaN.
KHD double power_of(double a, double y) {
  if (a == 1) return 1;
  const DoubleDouble log = has_logarithm(a) ? log2_of(a) : DoubleDouble{logarithm_beyond(a), 0};
  const DoubleDouble p = product(y, log.high);
  return exp2_of({p.high, fma(y, log.low, p.low)});
}

// 1 / cbrt(a) from a nearby y: one iteration of fourth order.
template <class T>
KHD T nearer_inverse(T a, T y) {
  const T h = fma(-(a * y), y * y, T(1));
  return fma(y * h, fma(h, fma(h, T(14.0 / 81), T(2.0 / 9)), T(1.0 / 3)), y);
}
// The cube root of a > 0, from a guess of 1 / cbrt(a) with 3.5 % error: two iterations, then a Newton step with the
// exact remainder. The rounding error of a must be a normal number.
template <class T>
KHD T cube_root(T a, T guess) {
  const T y = nearer_inverse(a, nearer_inverse(a, guess));
  const T root = a * y * y, square = root * root, cube = square * root;
  const T remainder = a - cube - fma(square, root, -cube) - fma(root, root, -square) * root;
  return fma(remainder * (y * y), T(1.0 / 3), root);
}

}  // namespace elementary

KHD double exp2(double x) { return x == x ? elementary::exp2_of({x, 0}) : x; }

KHD double exp(double x) {
  if (x != x) return x;
  const elementary::DoubleDouble p = elementary::product(x, elementary::kLog2OfE.high);
  return elementary::exp2_of({p.high, fma(x, elementary::kLog2OfE.low, p.low)});
}

KHD double log2(double x) {
  if (!elementary::has_logarithm(x)) return elementary::logarithm_beyond(x);
  return elementary::log2_of(x).high;
}

KHD double log(double x) {
  if (!elementary::has_logarithm(x)) return elementary::logarithm_beyond(x);
  return (elementary::log2_of(x) * elementary::kLogOf2).high;
}

KHD double pow(double x, double y) {
  if (x == 1 || y == 0) return 1;
  if (x != x || y != y) return x + y;
  const bool large = abs(y) >= 0x1p53;  // y is an even integer, or infinite
  const int64 whole = large ? 0 : static_cast<int64>(y);
  const bool integer = large || static_cast<double>(whole) == y;
  if (x < 0 && x > -kInfinity && !integer) return kNaN;
  const double size = elementary::power_of(abs(x), y);
  const bool negative = bits_of(x) >> 63 != 0 && integer && (whole & 1) != 0;
  return negative ? -size : size;
}

// Computed from x 2^96 or x 2^-24, for which no remainder is subnormal and no cube overflows. The first guess divides
// the bits by -3, which divides the exponent.
KHD float cbrt(float x) {
  const bool small = abs(x) < 1;
  const float a = abs(x) * (small ? 0x1p96f : 0x1p-24f);
  const float root = elementary::cube_root(a, float_of(0x54a24000u - bits_of(a) / 3)) *
                     (small ? 0x1p-32f : 0x1p8f);
  return is_finite(x) && x != 0 ? (x < 0 ? -root : root) : x;
}
// c0 + c1 x + c2 x^2 + ...
KHD float polynomial(float, float last) { return last; }
KHD float polynomial(float x, float first, auto... more) {
  return fma(polynomial(x, more...), x, first);
}

// log2 of a normal number, with a relative error of 2^-22, also near 1. For other arguments the result is arbitrary.
KHD float log2_of_element(float x) {
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)); log(m) / 2 = s + s^3 / 3 + ... + s^11 / 11, |s| < 0.172.
  const int n = static_cast<int>(bits_of(x) - 0x3f3504f3u) >> 23;
  const float m = float_of(bits_of(x) - (static_cast<uint32>(n) << 23));
  const float s = (m - 1) / (m + 1), z = s * s;
  const float tail = polynomial(z, 1.0f / 3, 1.0f / 5, 1.0f / 7, 1.0f / 9, 1.0f / 11);
  const float twice = s * 0x1.715476p+1f;
  return static_cast<float>(n) + fma(twice * z, tail, twice);
}

// 2^x, with a relative error of 2^-23. x is clamped to [-126, 127].
KHD float exp2_of_element(float x) {
  const float inside = max(min(x, 127.0f), -126.0f);
  const float whole = inside + 0x1.8p23f - 0x1.8p23f;  // to nearest
  const float r = (inside - whole) * 0x1.62e43p-1f;    // e^r for |r| < 0.35
  return polynomial(r, 1.0f, 1.0f, 1.0f / 2, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720,
                    1.0f / 5040) *
         float_of(static_cast<uint32>(static_cast<int>(whole) + 127) << 23);
}

KHD double cbrt(double x) {
  const bool small = abs(x) < 1;
  const double a = abs(x) * (small ? 0x1p768 : 0x1p-192);
  const uint32 guess = 0x553ef2abu - static_cast<uint32>(bits_of(a) >> 32) / 3;
  const double root = elementary::cube_root(a, double_of(static_cast<uint64>(guess) << 32)) *
                      (small ? 0x1p-256 : 0x1p64);
  return is_finite(x) && x != 0 ? (x < 0 ? -root : root) : x;
}

}  // namespace jitstep
