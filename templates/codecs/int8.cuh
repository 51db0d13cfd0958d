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
inline constexpr auto kSignedThresholds = Magnitudes<7, 1>::thresholds();
inline constexpr auto kUnsignedThresholds = Magnitudes<7, 2>::thresholds();

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
    const float y = abs(x) * inverse_of({meta.scale});
    if constexpr (is_signed) {
      const int k = x < 0 ? min(nearest<1, false>(y), kZero) : nearest<1, true>(y);
      return static_cast<Code>(is_finite(x) ? (x < 0 ? kZero - k : kZero + k) : kZero);
    } else {
      const int k = nearest<2, true>(y);
      const int floor = O.positive_floor && x > 0 && k == 0 ? 1 : k;
      return static_cast<Code>(is_finite(x) ? floor : 255);
    }
  }

 private:
  template <int Finest, bool TieUp>
  KHD static int nearest(float y) {
    const auto& threshold = Finest == 1 ? kSignedThresholds.x : kUnsignedThresholds.x;
    int k = place_near<7, Finest>(y);
    const auto reaches = [&](int i) { return TieUp ? y >= threshold[i] : y > threshold[i]; };
    k -= reaches(k) ? 0 : 1;
    return k + (reaches(k + 1) ? 1 : 0);
  }
};

}  // namespace jitstep::codecs::int8
