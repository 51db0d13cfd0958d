// Random numbers of a rule: each is a function of seed, tensor, element, step number and its own number only, so that
// its bits are the same on every target, in every pass and for every shard.
#pragma once
#include "elementary.cuh"
#include "philox.cuh"

namespace jitstep {

// Streams of a rule's random bits. Weights and slots use lower numbers, gradient accumulation a higher one.
inline constexpr uint32 kFirstRuleStream = 64, kRuleStreams = 64;

// 32 random bits number k of an element, for k in [0, 256). The four words of a counter are four numbers of one
// element. The compiler computes a counter once for all of them.
KHD uint32 random_bits(RandomKey key, int64 element, int k) {
  key.stream = kFirstRuleStream + static_cast<uint32>(k) / 4 % kRuleStreams;
  const RandomWords words = philox(key, static_cast<uint64>(element));
  const uint32 low = k & 1 ? words.word[1] : words.word[0];
  const uint32 high = k & 1 ? words.word[3] : words.word[2];
  return k & 2 ? high : low;
}

// A number in [0, 1), of the highest 24 bits. float and double give the same number.
KHD real uniform_of(uint32 bits) {
  return static_cast<real>(static_cast<int>(bits >> 8)) * static_cast<real>(0x1p-24);
}

namespace random_numbers {

// log2 of a normal number, as log2_of_element() in elementary.cuh. The double's relative error is 2^-49.
KHD float log2_of(float x) { return log2_of_element(x); }
KHD double log2_of(double x) {
  const int64 n = static_cast<int64>(bits_of(x) - 0x3fe6a09e667f3bcdull) >> 52;
  const double m = double_of(bits_of(x) - (static_cast<uint64>(n) << 52));
  const double s = (m - 1) / (m + 1), z = s * s;
  double tail = 0;
  UNROLL
  for (int k = 23; k > 1; k -= 2) tail = fma(tail, z, 1.0 / k);
  const double twice = s * 0x1.71547652b82fep+1;
  return static_cast<double>(n) + fma(twice * z, tail, twice);
}

// sin(pi y) for |y| <= 1/2: its Taylor series. The absolute error is 2^-23 of float, 2^-52 of double.
KHD float sine_of_half_turns(float y) {
  const float x = y * 0x1.921fb6p+1f, z = x * x;
  const float tail = polynomial(z, -1.0f / 6, 1.0f / 120, -1.0f / 5040, 1.0f / 362880,
                                -1.0f / 39916800, 1.0f / 6227020800.0f);
  return fma(x * z, tail, x);
}
KHD double sine_of_half_turns(double y) {
  const double x = y * 0x1.921fb54442d18p+1, z = x * x;
  double factorial = 51090942171709440000.0, tail = 0;
  UNROLL
  for (int n = 21; n > 1; factorial /= n * (n - 1), n -= 2)
    tail = fma(tail, z, (n / 2 % 2 == 0 ? 1 : -1) / factorial);
  return fma(x * z, tail, x);
}

}  // namespace random_numbers

// A number with the standard normal distribution, from two independent words (Box and Muller, 1958). Its magnitude is
// at most 5.8.
KHD real normal_of(uint32 a, uint32 b) {
  // An odd multiple of 2^-24 in (0, 1), and a multiple of 2^-23 in [-1, 1). Both are exact.
  const real u = static_cast<real>(static_cast<int>(a >> 9) * 2 + 1) * static_cast<real>(0x1p-24);
  const real x = static_cast<real>(static_cast<int>(b >> 8)) * static_cast<real>(0x1p-23) - real(1);
  const real size = sqrt(random_numbers::log2_of(u) * static_cast<real>(-0x1.62e42fefa39efp+0));
  return size * random_numbers::sine_of_half_turns(real(0.5) - abs(x));
}

}  // namespace jitstep
