// Block-scaled 8-bit dynamic-exponent state (arXiv 2110.02861; torchao and bitsandbytes): signed and
// unsigned code book, nearest value, ties to the larger one. Ours alone: with positive_floor a
// positive value of a non-negative slot is never coded as zero, which would make the next update
// explode.
#pragma once
#include "../core/absmax.cuh"
#include "../core/codebook.cuh"

namespace jitstep::codecs::int8 {

struct Options {
  int block = 256;             // power of two in [32, 1024]
  bool positive_floor = true;  //
};
using Code = uint8;
struct Meta {
  float scale;
};

inline constexpr auto kSignedBook = signed_book<8>();
inline constexpr auto kUnsignedBook = Magnitudes<7, 2>::values();
inline constexpr auto kSignedThresholds = thresholds_of(kSignedBook);
inline constexpr auto kUnsignedThresholds = thresholds_of(kUnsignedBook);

template <class Sign, Options O>
struct Codec {
  using Code = int8::Code;
  using Meta = int8::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;
  static constexpr bool is_signed = kSame<Sign, Signed>;
  static constexpr int kZero = 127;  // of the signed book

  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }

  KHD static real decode(Code code, const Meta& meta) {
    return scaled(is_signed ? kSignedBook.x[code] : kUnsignedBook.x[code], {meta.scale});
  }

  KHD static Code encode(real value, const Meta& meta, uint32) {
    const float x = static_cast<float>(value);
    const float y = x * inverse_of({meta.scale});
    if constexpr (is_signed) {
      const int place = place_near<7, 1>(abs(y));
      const int guess = max(kZero + (y < 0 ? -place : place), 0);
      const int code = nearest_code(kSignedThresholds, y, guess);
      return static_cast<Code>(is_finite(x) ? code : kZero);
    } else {
      const int code = nearest_code(kUnsignedThresholds, y, place_near<7, 2>(y));
      const int floor = O.positive_floor && x > 0 && code == 0 ? 1 : code;
      return static_cast<Code>(is_finite(x) ? floor : 255);
    }
  }
};

}  // namespace jitstep::codecs::int8
