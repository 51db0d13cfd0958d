// State in the precision of the arithmetic: float, or double for float64 parameters.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::fp32 {

using Code = real;

template <class Sign>
struct Codec {
  using Code = fp32::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = false;
  KHD static real decode(Code code, const Meta&) { return code; }
  KHD static Code encode(real x, const Meta&, uint32) { return x; }
};

}  // namespace jitstep::codecs::fp32
