// A strip is a few consecutive elements whose new values are rounded to 16 bits by instructions for many values, on
// CPUs that have them. The loop over its elements is unrolled, so that the values stay in registers.
#pragma once
#include "../../lang/formats.cuh"
#include "../../lang/port_cpu.cuh"
#include "../args.cuh"

namespace jitstep {

// The instructions that round to a dtype, if there are any. round() returns 0 if they are right for all values.
template <class Dtype>
struct AtOnce {
  static constexpr bool rounds = false;
};
template <>
struct AtOnce<BFloat16> {
  static constexpr bool rounds = kRoundsToBf16 && kSame<real, float>;
  template <int Special>
  KHD static uint32 round(const float* x, uint16* to) {
    return round_to_bf16<Special>(x, to);
  }
};
template <>
struct AtOnce<Float16> {
  static constexpr bool rounds = kConvertsFp16 && kSame<real, float>;
  template <int Special>
  KHD static uint32 round(const float* x, uint16* to) {
    return round_to_fp16<Special>(x, to);
  }
};

// Whether a codec or weight format rounds to nearest in a dtype that has such instructions. It declares the dtype, as
// `Rounded`.
template <class Format>
constexpr bool rounds_to_nearest() {
  if constexpr (requires { typename Format::Rounded; })
    return AtOnce<typename Format::Rounded>::rounds;
  else
    return false;
}
// Whether it rounds stochastically to bfloat16, and there are such instructions. It declares this, as
// `rounds_randomly`.
template <class Format>
constexpr bool rounds_randomly() {
  return kRoundsRandomly && kSame<real, float> && requires { requires Format::rounds_randomly; };
}
template <class Format>
constexpr bool rounds_strips() {
  return rounds_to_nearest<Format>() || rounds_randomly<Format>();
}

// Rounds and stores a strip. draws: of its elements, if the format rounds stochastically. one(x, random bits): the bits
// of one value, for strips with values that the instructions do not round.
template <class Format, int Special, int Size, class F>
KHD void store_strip(const float (&x)[Size], const uint16* draws, uint16* to, F&& one) {
  static_assert(Size % kRoundedAtOnce == 0 && kLeaf % Size == 0);
  constexpr bool kRandom = rounds_randomly<Format>();
  uint32 special = 0;
  UNROLL
  for (int i = 0; i < Size; i += kRoundedAtOnce)
    if constexpr (kRandom)
      special |= round_randomly<Special>(x + i, draws + i, to + i);
    else
      special |= AtOnce<typename Format::Rounded>::template round<Special>(x + i, to + i);
  if (special == 0) [[likely]]
    return;
  INDEPENDENT
  for (int i = 0; i < Size; ++i) to[i] = one(x[i], kRandom ? draws[i] : 0);
}

// The values of a range of bits. Instructions widen float16 before the loop over elements, if there are any.
template <class Dtype, bool Widens = kSame<Dtype, Float16>&& AtOnce<Dtype>::rounds>
class WidenedRange {
 public:
  KHD WidenedRange(const void* bits, int64 base, int)
      : bits_(static_cast<const typename Dtype::Bits*>(bits) + base) {}
  KHD real operator[](int i) const { return static_cast<real>(Dtype::load(bits_[i])); }

 private:
  const typename Dtype::Bits* bits_;
};
template <class Dtype>
class WidenedRange<Dtype, true> {
 public:
  KHD WidenedRange(const void* all, int64 base, int count) {
    const auto* bits = static_cast<const uint16*>(all) + base;
    int done = 0;
    if (!has_signaling_nan(bits, count)) [[likely]]
      for (; done + kRoundedAtOnce <= count; done += kRoundedAtOnce)
        widen_fp16(bits + done, values_ + done);
    INDEPENDENT
    for (; done < count; ++done) values_[done] = Dtype::load(bits[done]);
  }
  KHD real operator[](int i) const { return values_[i]; }

 private:
  // The instruction would make it quiet.
  KHD static bool has_signaling_nan(const uint16* bits, int count) {
    uint16 least = 0xffffu;
    // vectorized: the loop that finds signaling NaNs
    for (int i = 0; i < count; ++i) {
      const auto over_infinity = static_cast<uint16>((bits[i] & 0x7fffu) - 0x7c01u);
      least = over_infinity < least ? over_infinity : least;
    }
    return least < 0x1ffu;
  }

  float values_[kLeaf];
};

}  // namespace jitstep
