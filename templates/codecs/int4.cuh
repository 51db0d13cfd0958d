// Block-scaled 4-bit state (arXiv 2309.01507; torchao, lpmm): dynamic-exponent values for a signed
// slot, (i + 1) / 16 for a non-negative one, which is so never zero. Nearest value, ties to the
// larger one; two codes a byte, the even element in the low half.
#pragma once
#include "../core/absmax.cuh"
#include "../core/codebook.cuh"

namespace jitstep::codecs::int4 {

struct Options {
  int block = 128;  // power of two in [32, 1024]
};
using Code = Nibble;
struct Meta {
  float scale;
};

inline constexpr auto kSignedBook = signed_book<4>();
inline constexpr auto kSignedThresholds = thresholds_of(kSignedBook);

template <class Sign, Options O>
struct Codec {
  using Code = int4::Code;
  using Meta = int4::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;
  static constexpr bool is_signed = kSame<Sign, Signed>;

  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }

  KHD static real decode(uint8 code, const Meta& meta) {
    const float value = is_signed ? kSignedBook.x[code] : static_cast<float>(code + 1) * 0.0625f;
    return scaled(value, {meta.scale});
  }

  KHD static uint8 encode(real value, const Meta& meta, uint32) {
    const float x = static_cast<float>(value);
    const float y = x * inverse_of({meta.scale});
    if constexpr (is_signed) {
      int code = 0;
      UNROLL
      for (int i = 1; i < 16; ++i) code += y >= kSignedThresholds.x[i];
      return static_cast<uint8>(is_finite(x) ? code : 7);
    } else {
      const float place = min(max(y * 16 - 0.5f, 0.0f), 15.0f);
      return static_cast<uint8>(is_finite(x) ? static_cast<int>(place) : 15);
    }
  }
};

}  // namespace jitstep::codecs::int4
