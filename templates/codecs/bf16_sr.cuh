// bfloat16 state with stochastic rounding, as torchastic. The rounding error is zero on average, so a second moment
// decays with any beta2. In `bf16` it stops. Random bits depend only on seed, tensor, step, slot and element.
#pragma once
#include "../lang/contract.cuh"

namespace jitstep::codecs::bf16_sr {

using Code = uint16;

template <class Sign>
struct Codec {
  using Code = bf16_sr::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = true;
  static constexpr bool rounds_randomly = true;
  KHD static real decode(Code code, const Meta&) { return bf16_to_float(code); }
  KHD static Code encode(real x, const Meta&, uint32 random_bits) {
    return float_to_bf16_stochastic(static_cast<float>(x), random_bits);
  }
};

}  // namespace jitstep::codecs::bf16_sr
