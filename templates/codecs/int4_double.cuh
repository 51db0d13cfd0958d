// 4-bit state with double quantization (QLoRA, arXiv 2305.14314): the scale of a block has 8 bits. Divided by the
// tensor's largest magnitude, it is 1, 1.25, 1.5 or 1.75 times a power of two, down to 1.5 * 2^-64. Up to rounding, it
// is never below the block's largest magnitude. So blocks of 32 need the memory of `int4` with blocks of 128. Otherwise
// as `int4` without signed_scale. QLoRA has scales in 8-bit floats, and a float per 256 blocks where this codec has one
// per tensor.
#pragma once
#include "support/normalized_int4.cuh"

namespace jitstep::codecs::int4_double {

struct Options {
  int block = 32;           // power of two in [32, 1024]
  bool stochastic = false;
};
using Code = Nibble;
struct Meta {
  // 255: the tensor's largest magnitude. The 2 low bits of 255 - scale are a significand's, the others an exponent's.
  // 0: a block of zeros.
  uint8 scale;
};
struct Largest {
  real magnitude;
};
struct Reductions {
  Max<tensor, 1, Largest> largest;
};
struct AuxState {
  Entry<tensor> largest;
};
// What `encode` needs in addition to the stored metadata.
struct Measured : Meta {
  float inverse;
};

inline constexpr int kStepBits = 21;  // of a float: below them are two bits of its significand
inline constexpr uint32 kLargestCode = 255;

template <class Sign, Options O>
struct Codec {
  using Code = int4_double::Code;
  using Meta = int4_double::Meta;
  using ScaledCodec = NormalizedInt4<Sign, O.stochastic>;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = O.stochastic;

  KHD static Reals<1> terms(Of<Largest>, real x) { return {is_finite(x) ? abs(x) : real(0)}; }
  KHD static Largest finalize(Of<Largest>, const Totals<1>& largest, int64, AuxState& m) {
    return {m.largest.next = static_cast<real>(largest[0])};
  }

  KHD static Scale scale_of(const Meta& meta, real largest) {
    const uint32 below = (kLargestCode - meta.scale) << kStepBits;
    const float relative = chosen(meta.scale > 0, float_of(bits_of(1.0f) - below), 0.0f);
    return {relative * static_cast<float>(largest)};
  }
  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Measured measure(const uint32 (&key)[1], const AuxState& m) {
    const float largest = static_cast<float>(m.largest.next);
    const float relative = unit_clamped(float_of(key[0]) * inverse_of({largest}));
    const uint32 below = (bits_of(1.0f) - bits_of(relative)) >> kStepBits;
    const Meta meta{
        static_cast<uint8>(relative > 0 ? kLargestCode - min(below, kLargestCode - 1) : 0)};
    return {meta, inverse_of(scale_of(meta, m.largest.next))};
  }

  KHD static real denormalize(real y, const Meta& meta, const AuxState& m) {
    return scaled(static_cast<float>(y), scale_of(meta, m.largest.prev));
  }
  KHD static real normalize(real x, const Measured& measured) {
    return static_cast<float>(x) * measured.inverse;
  }
  KHD static real decode(uint8 code, const Meta& meta, const AuxState& m) {
    return denormalize(ScaledCodec::decode(code, {}), meta, m);
  }
  KHD static uint8 encode(real x, const Measured& measured, uint32 random_bits, const AuxState&) {
    return ScaledCodec::encode(normalize(x, measured), {}, random_bits);
  }
};

}  // namespace jitstep::codecs::int4_double
