// A bfloat16 parameter and, beside it, a bfloat16 of what rounding has taken off it so far: updates too small for the
// parameter add up (Kahan; github.com/arogozhnikov/adamw_bfloat16's `shift`, optimi's `kahan_comp`). The
// originals round each operation; here a step computes with the sum of both and rounds each once. More than half a
// last place is not of this parameter: it was set from outside, and is taken over.   for: bfloat16
#pragma once
#include "../core/contract.cuh"

namespace jitstep::weights::kahan {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Extra = uint16;
  static constexpr bool random = false;
  KHD static real first(typename Format::Bits bits) { return Format::load(bits); }
  KHD static real load(typename Format::Bits bits, Extra shift) {
    const float p = Format::load(bits), rest = bf16_to_float(shift);
    const float half_place = Format::load(bits & 0x7f80u) * 0x1p-8f;
    return p + chosen(abs(rest) <= half_place, rest, 0.0f);
  }
  KHD static typename Format::Bits store(real x, uint32, Extra& shift) {
    const typename Format::Bits bits = Format::store(x);
    const real p = Format::load(bits);
    shift = static_cast<Extra>(is_finite(p) ? float_to_bf16(x - p) : 0);
    return bits;
  }
};

}  // namespace jitstep::weights::kahan
