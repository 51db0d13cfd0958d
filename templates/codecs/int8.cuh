// Block-scaled 8-bit dynamic-exponent state (arXiv 2110.02861; torchao and bitsandbytes): signed and
// unsigned code book, nearest value, ties to the larger one. Ours alone: with positive_floor a
// positive value of a non-negative slot is never coded as zero, which would make the next update
// explode.
#pragma once
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

template <class Sign>
struct Values {
  using Book = SignedBook<8>;
  static constexpr int not_finite = Book::zero;
};
template <>
struct Values<NonNegative> {
  using Book = NonNegativeBook<8>;
  static constexpr int not_finite = 255;
};

template <class Sign, Options O>
struct Codec {
  using Code = int8::Code;
  using Meta = int8::Meta;
  using Book = typename Values<Sign>::Book;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;
  static constexpr bool keeps_positive = O.positive_floor && kSame<Sign, NonNegative>;

  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }

  KHD static float in_units(real x, const Meta& meta) {
    return static_cast<float>(x) * inverse_of({meta.scale});
  }

  KHD static real value_of(float book_value, const Meta& meta) {
    return scaled(book_value, {meta.scale});
  }
  KHD static uint8 candidate(real x, const Meta& meta) {
    return Book::candidate(in_units(x, meta));
  }
  KHD static Code code_of(real value, const Meta& meta, uint8 candidate, float threshold) {
    const float x = static_cast<float>(value);
    const int nearest = nearest_code(in_units(value, meta), candidate, threshold);
    const int code = keeps_positive && x > 0 && nearest == 0 ? 1 : nearest;
    return static_cast<Code>(is_finite(x) ? code : Values<Sign>::not_finite);
  }

  KHD static real decode(Code code, const Meta& meta) {
    return value_of(Book::values.x[code], meta);
  }
  KHD static Code encode(real x, const Meta& meta, uint32) {
    const uint8 near = candidate(x, meta);
    return code_of(x, meta, near, Book::thresholds.x[near]);
  }
};

}  // namespace jitstep::codecs::int8
