// bfloat16 state, rounded to nearest even. An average with a factor (beta2) above 0.996 stops decaying before it is
// zero: a step removes less than half an ulp. Above 0.998 it never decays. Use a wider format for it, or `bf16_sr`.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::bf16 {

using Code = uint16;

template <class Sign>
struct Codec {
  using Code = bf16::Code;
  using Meta = NoMeta;
  using Rounded = BFloat16;
  static constexpr int block = 1;
  static constexpr bool random = false;
  KHD static real decode(Code code, const Meta&) { return bf16_to_float(code); }
  KHD static Code encode(real x, const Meta&, uint32) {
    return float_to_bf16(static_cast<float>(x));
  }
};

}  // namespace jitstep::codecs::bf16
