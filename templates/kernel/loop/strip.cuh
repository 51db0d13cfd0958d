// A strip is a few consecutive elements whose new values are rounded to 16 bits by instructions for many values, on
// CPUs that have them. The loop over its elements is unrolled, so that the values stay in registers.
#pragma once
#include "../../lang/formats.cuh"
#include "../args.cuh"

namespace jitstep {

// Whether a codec or weight format rounds to nearest in a dtype that has such an instruction. It declares the dtype, as
// `Rounded`.
template <class Format>
constexpr bool rounds_strips() {
  if constexpr (requires { typename Format::Rounded; })
    return kSame<typename Format::Rounded, BFloat16> && kSame<real, float> && kRoundsToBf16;
  else
    return false;
}

// Rounds and stores a strip. one(x): the bits of one value, for strips with a NaN or subnormal.
template <int Size, class F>
KHD void store_strip(const float (&x)[Size], uint16* to, F&& one) {
  static_assert(Size % kRoundedAtOnce == 0 && kLeaf % Size == 0);
  uint32 special = 0;
  UNROLL
  for (int i = 0; i < Size; i += kRoundedAtOnce) special |= round_to_bf16(x + i, to + i);
  if (special == 0) [[likely]]
    return;
  INDEPENDENT
  for (int i = 0; i < Size; ++i) to[i] = one(x[i]);
}

}  // namespace jitstep
