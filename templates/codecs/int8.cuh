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
struct Codec : AbsmaxBlock<Meta, O.block> {
  using Code = int8::Code;
  using B = AbsmaxBlock<Meta, O.block>;
  using Measured = typename B::Measured;
  using Book = typename Values<Sign>::Book;
  static constexpr bool keeps_positive = O.positive_floor && kSame<Sign, NonNegative>;

  KHD static int candidate(real x, const Measured& measured) {
    return Book::candidate(B::in_units(x, measured));
  }
  KHD static Code code_of(real value, const Measured& measured, int candidate, float threshold) {
    const float x = static_cast<float>(value);
    const int nearest = nearest_code(B::in_units(value, measured), candidate, threshold);
    const int code = keeps_positive && x > 0 && nearest == 0 ? 1 : nearest;
    return static_cast<Code>(is_finite(x) ? code : Values<Sign>::not_finite);
  }

  KHD static real decode(Code code, const Meta& meta) {
    return B::value_of(Book::values.x[code], meta);
  }
  KHD static Code encode(real x, const Measured& measured, uint32) {
    const int near = candidate(x, measured);
    return code_of(x, measured, near, Book::thresholds.x[near]);
  }
};

}  // namespace jitstep::codecs::int8
