// Codes of ordinary blocks by the steps without exceptions, against `encode`.
#pragma once

#include <gtest/gtest.h>

#include "../../templates/codecs/int4.cuh"
#include "../../templates/codecs/int8.cuh"
#include "../../templates/codecs/int8_signed.cuh"

namespace jitstep::support {

using Int8Signed = codecs::int8::Codec<Signed, codecs::int8::Options{}>;
using Int8Floor = codecs::int8::Codec<NonNegative, codecs::int8::Options{}>;
using Int8Nearest =
    codecs::int8::Codec<NonNegative, codecs::int8::Options{.positive_floor = false}>;
using HalfFloor = codecs::int8_signed::Codec<NonNegative, codecs::int8_signed::Options{}>;
using Int4Signed = codecs::int4::Codec<Signed, codecs::int4::Options{}>;
using Int4NonNegative = codecs::int4::Codec<NonNegative, codecs::int4::Options{}>;

/// The threshold that whole tiles use, or NaN for a code that does not exist.
template <class Codec>
float quick_threshold(uint32 code) {
  if constexpr (requires { Codec::floored; }) {
    if (code >= kSizeOf<Codec::Codebook::values>) return static_cast<float>(kNaN);
    return Codec::quick_threshold(code);
  } else {
    return 0;
  }
}

/// Whether both ways give the same code of x, in a block whose scale is 1. Kernels flush values before `encode`.
template <class Codec>
bool has_quick_code(float x) {
  const auto measured = Codec::measure({bits_of(1.0f)});
  return Codec::quick_code(x, measured, quick_threshold<Codec>) ==
         Codec::encode(flush_subnormal(x), measured, 0);
}

}  // namespace jitstep::support
