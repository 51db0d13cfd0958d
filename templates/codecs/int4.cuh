// Block-scaled 4-bit state (arXiv 2309.01507; torchao, lpmm): dynamic-exponent values for a signed
// slot, (i + 1) / 16 for a non-negative one, which is so never zero. Nearest value, ties to the
// larger one; two codes a byte, the even element in the low half.
#pragma once
#include "../core/codebook.cuh"

namespace jitstep::codecs::int4 {

struct Options {
  int block = 128;  // power of two in [32, 1024]
};
using Code = Nibble;
struct Meta {
  float scale;
};

template <Options O>
struct Block {
  using Code = int4::Code;
  using Meta = int4::Meta;
  static constexpr int block = O.block;
  static constexpr int keys = 1;
  static constexpr bool random = false;

  KHD static uint32 key(real x, int) { return magnitude_key(static_cast<float>(x)); }
  KHD static Meta measure(const uint32 (&key)[1]) { return {float_of(key[0])}; }

  KHD static real value_of(float book_value, const Meta& meta) {
    return scaled(book_value, {meta.scale});
  }
  KHD static float in_units(real x, const Meta& meta) {
    return static_cast<float>(x) * inverse_of({meta.scale});
  }
};

template <class Sign, Options O>
struct Codec : Block<O> {
  using Book = SignedBook<4>;
  using B = Block<O>;

  KHD static uint8 candidate(real x, const Meta& meta) {
    return Book::candidate(B::in_units(x, meta));
  }
  KHD static uint8 code_of(real x, const Meta& meta, uint8 candidate, float threshold) {
    const int nearest = nearest_code(B::in_units(x, meta), candidate, threshold);
    return static_cast<uint8>(is_finite(static_cast<float>(x)) ? nearest : Book::zero);
  }

  KHD static real decode(uint8 code, const Meta& meta) {
    return B::value_of(Book::values.x[code], meta);
  }
  KHD static uint8 encode(real x, const Meta& meta, uint32) {
    const uint8 near = candidate(x, meta);
    return code_of(x, meta, near, Book::thresholds.x[near]);
  }
};

template <Options O>
struct Codec<NonNegative, O> : Block<O> {
  using B = Block<O>;

  KHD static real decode(uint8 code, const Meta& meta) {
    return B::value_of(static_cast<float>(code + 1) * 0.0625f, meta);
  }
  KHD static uint8 encode(real x, const Meta& meta, uint32) {
    const float place = unit_clamped(B::in_units(x, meta)) * 16 - 0.5f;  // truncated towards 0
    return static_cast<uint8>(is_finite(static_cast<float>(x)) ? static_cast<int>(place) : 15);
  }
};

}  // namespace jitstep::codecs::int4
