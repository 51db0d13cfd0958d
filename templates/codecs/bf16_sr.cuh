// bfloat16 state rounded stochastically (torchastic): the mean is exact, so that a second moment decays under any beta2,
// where `bf16` stands still. Repeatable: the random bits depend on seed, tensor, step, slot and element alone.
#pragma once
#include "../core/contract.cuh"

namespace jitstep::codecs::bf16_sr {

using Code = uint16;

template <class Sign>
struct Codec {
  using Code = bf16_sr::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = true;
  KHD static real decode(Code code, const Meta&) { return bf16_to_float(code); }
  KHD static Code encode(real x, const Meta&, uint32 random_bits) {
    return float_to_bf16_stochastic(static_cast<float>(x), random_bits);
  }
};

}  // namespace jitstep::codecs::bf16_sr
