// A bfloat16 parameter, and a bfloat16 of its accumulated rounding error, so that small updates add up (Kahan
// summation; `shift` in github.com/arogozhnikov/adamw_bfloat16, `kahan_comp` in optimi). The originals round each
// operation. Here a step computes with the sum of both, and rounds each once. An error of more than half an ulp does
// not belong to this parameter: a program has overwritten it, and only its new value counts. A smaller error is added
// to the new value.   for: bfloat16
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::weights::kahan {

template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = uint16;
  static constexpr bool random = false;
  KHD static real first(typename Format::Bits bits) { return Format::load(bits); }
  KHD static real load(typename Format::Bits bits, Residual shift) {
    const float p = Format::load(bits), rest = bf16_to_float(shift);
    const float half_ulp = Format::load(bits & 0x7f80u) * 0x1p-8f;
    return p + chosen(abs(rest) <= half_ulp, rest, 0.0f);
  }
  KHD static typename Format::Bits store(real x, uint32, Residual& shift) {
    const typename Format::Bits bits = Format::store(x);
    const real p = Format::load(bits);
    shift = static_cast<Residual>(is_finite(p) ? float_to_bf16(x - p) : 0);
    return bits;
  }
};

}  // namespace jitstep::weights::kahan
