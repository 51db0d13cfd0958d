// Dynamic-exponent codebooks (Dettmers, arXiv 2110.02861). Each decade below 1 has twice as many values as the
// previous one: midpoints of equal intervals of [0.1, 1]. The codebook also has 0 and 1. The values are computed in
// float, as torch's scalar linspace does. tests/golden has reference values (`codebooks`).
#pragma once
#include "../../lang/list.cuh"
#include "absmax.cuh"
#include "table.cuh"

namespace jitstep {

// The magnitudes in order: 0, then `Decades` decades, the first with `Finest` values, then 1. There are
// Finest * (2^Decades - 1) + 2.
template <int Decades, int Finest>
struct Magnitudes {
  static constexpr int count = Finest * ((1 << Decades) - 1) + 2;

  static constexpr float linspace(int n, int i) {
    const float step = 0.9f / static_cast<float>(n - 1);
    return i < n / 2 ? 0.1f + step * static_cast<float>(i)
                     : 1.0f - step * static_cast<float>(n - 1 - i);
  }
  static constexpr float decade(int d) {
    double scale = 1;
    for (int i = d; i < Decades - 1; ++i) scale *= 10;
    return static_cast<float>(1 / scale);
  }
  static constexpr Table<count> values() {
    Table<count> table{};
    int at = 1;
    for (int d = 0; d < Decades; ++d) {
      const int n = Finest << d;
      for (int i = 0; i < n; ++i)
        table.x[at++] = decade(d) * ((linspace(n + 1, i) + linspace(n + 1, i + 1)) / 2);
    }
    table.x[at] = 1;
    return table;
  }
};

// Codes 0 to 2^bits - 1 in ascending order of value. A signed codebook has no -1.
template <int Bits>
constexpr Table<1 << Bits> signed_codebook() {
  constexpr auto magnitude = Magnitudes<Bits - 1, 1>::values();
  constexpr int zero = (1 << (Bits - 1)) - 1;
  Table<1 << Bits> codebook{};
  for (int code = 0; code < 1 << Bits; ++code)
    codebook.x[code] = code < zero ? -magnitude.x[zero - code] : magnitude.x[code - zero];
  return codebook;
}

// The smallest float that is not below x. x is not zero.
constexpr float float_not_below(double x) {
  const float near = static_cast<float>(x);
  if (near >= x) return near;
  const uint32 bits = bit_cast<uint32>(near);
  return bit_cast<float>(near > 0 ? bits + 1 : bits - 1);
}

// At index `code`: the smallest float that is at least as near to its value as to the previous code's value. Computed
// in double, where the midpoint of two floats is exact.
template <int N>
constexpr Table<N> thresholds_of(const Table<N>& codebook) {
  Table<N> table{};
  table.x[0] = -static_cast<float>(kInfinity);
  for (int code = 1; code < N; ++code)
    table.x[code] =
        float_not_below((static_cast<double>(codebook.x[code - 1]) + codebook.x[code]) / 2);
  return table;
}

// The index of the magnitude nearest to y, or of the one below it. It needs no search. The Finest << d values of a
// decade have equal steps, so the index is a linear function of y there. The next decade's line is flatter and meets
// it at the decade's end, so the minimum over all lines is the index. The lines are half a step lower, because
// thresholds are at whole indices, and 0.2 above one where a decade begins.
// lowest_line: the bits of the lowest line at y in [0, 1], or `lowest` if that is less. The lines are Halves / 2
// higher.
template <int Decades, int Finest, int Halves = 0>
KHD int lowest_line(float y, int lowest) {
  using M = Magnitudes<Decades, Finest>;
  constexpr float per_interval = Finest / 0.9f;
  static_for<Decades>([&](auto d) {
    constexpr int begin = Finest * ((1 << decltype(d)::value) - 1) + 1;
    constexpr float intervals = static_cast<float>(1 << decltype(d)::value) * per_interval;
    constexpr float slope = intervals / M::decade(decltype(d)::value);
    constexpr float start = static_cast<float>(begin) - 0.1f * intervals - 0.5f;
    static_assert(start > 0, "lines order as their bits do");
    const int line =
        static_cast<int>(bits_of(fma(y, slope, start + static_cast<float>(Halves) / 2)));
    lowest = min(lowest, line);
  });
  return lowest;
}
template <int Decades, int Finest>
KHD int magnitude_reached(float y) {
  constexpr int highest = bit_cast<int>(static_cast<float>(Magnitudes<Decades, Finest>::count - 2));
  const int lowest = lowest_line<Decades, Finest>(unit_clamped(y), highest);
  return static_cast<int>(float_of(static_cast<uint32>(lowest)));
}
inline constexpr int kHighestLine = 0x7fffffff;

// A codebook has values by code, the threshold where each code begins, and the code of zero. The code nearest to y is
// candidate(y) or the one below it.
template <int Bits>
struct SignedCodebook {
  static constexpr Table<1 << Bits> values = signed_codebook<Bits>();
  static constexpr Table<1 << Bits> thresholds = thresholds_of(values);
  static constexpr int zero = (1 << (Bits - 1)) - 1;
  KHD static int candidate(float y) {
    const int reached = magnitude_reached<Bits - 1, 1>(abs(y));
    return y < 0 ? zero - reached : zero + 1 + reached;
  }
  // A positive number less than 0.5 from the candidate, for y in [-1, 1]. The constant ends in 0.625, not 0.5, so that
  // the number is positive for -1, too.
  KHD static float near_candidate(float y) {
    const uint32 line = static_cast<uint32>(lowest_line<Bits - 1, 1>(magnitude(y), kHighestLine));
    return float_of(line | (bits_of(y) & 0x80000000u)) + (static_cast<float>(zero) + 0.625f);
  }
};
template <int Bits>
struct NonNegativeCodebook {
  static constexpr auto values = Magnitudes<Bits - 1, 2>::values();
  static constexpr auto thresholds = thresholds_of(values);
  static constexpr int zero = 0;
  KHD static int candidate(float y) { return magnitude_reached<Bits - 1, 2>(y) + 1; }
  KHD static float near_candidate(float y) {
    return float_of(static_cast<uint32>(lowest_line<Bits - 1, 2, 1>(y, kHighestLine)));
  }
};

// The code nearest to y, ties to the larger value, from the threshold of its candidate.
KHD int nearest_code(float y, int candidate, float threshold) {
  return y >= threshold ? candidate : candidate - 1;
}

// The nearest code or, with stochastic rounding, the code of one of the two neighbors of y.
template <class Codebook, bool stochastic>
KHD int code_in_codebook(float y, int candidate, float threshold, uint32 random_bits) {
  const int nearest = nearest_code(y, candidate, threshold);
  if constexpr (stochastic)
    return stochastic_code(y, nearest, 0, kSizeOf<Codebook::values> - 1, random_bits,
                           [](int code) { return Codebook::values.x[code]; });
  else
    return nearest;
}

// 4-bit codes of a non-negative slot: (code + 1) / 16, so never zero. Nearest value, ties to the larger one.
struct Sixteenths {
  static constexpr int not_finite = 15;
  KHD static float value(int code) { return static_cast<float>(code + 1) * 0.0625f; }
  KHD static int nearest(float y) {
    return static_cast<int>(unit_clamped(y) * 16 - 0.5f);  // truncated towards 0
  }
  template <bool stochastic>
  KHD static int code(float y, uint32 random_bits) {
    if constexpr (stochastic)
      return stochastic_code(y, nearest(y), 0, 15, random_bits, value);
    else
      return nearest(y);
  }
};

// Base of codecs whose codes index a codebook of values divided by a block's scale.
template <class Sign, class Codebook_, class Meta, Ways W>
struct CodebookCodec : AbsmaxBlock<Meta, W> {
  using B = AbsmaxBlock<Meta, W>;
  using Measured = typename B::Measured;
  using Codebook = Codebook_;
  static constexpr bool is_signed = kSame<Sign, Signed>;
  static constexpr bool quick = B::plain && requires { Codebook_::near_candidate(0.0f); };
  static constexpr bool floored = W.positive_floor && !is_signed;
  static constexpr int not_finite = is_signed ? Codebook::zero : kSizeOf<Codebook::values> - 1;

  KHD static int candidate(real x, const Measured& measured) {
    return Codebook::candidate(B::normalize(x, measured));
  }
  KHD static uint8 code_of(real value, const Measured& measured, int candidate, float threshold,
                           uint32 random_bits = 0) {
    const float x = static_cast<float>(value), y = B::normalize(value, measured);
    const int free = code_in_codebook<Codebook, W.stochastic>(y, candidate, threshold, random_bits);
    const int code = floored && x > 0 ? max(free, Codebook::zero + 1) : free;
    return static_cast<uint8>(is_finite(x) ? code : not_finite);
  }

  // The threshold of the codebook or, for the least code of positive values with positive_floor, the least positive
  // number.
  KHD static float quick_threshold(uint32 code) {
    return floored && code == static_cast<uint32>(Codebook::zero) + 1
               ? 0x1p-149f
               : Codebook::thresholds.x[code];
  }
  // The code of x in an ordinary block (see AbsmaxBlock). threshold(code): quick_threshold. The bits of x * 2^-149, a
  // subnormal number, are x rounded to an integer.
  template <class Threshold>
  KHD static uint8 quick_code(real value, const Measured& measured, Threshold&& threshold) {
    const float x = static_cast<float>(value);
    const float y = B::normalize(floored ? without_subnormals(x) : x, measured);
    const uint32 near = bits_of(Codebook::near_candidate(y) * 0x1p-149f);
    const float above = y - threshold(near);
    return static_cast<uint8>(near + static_cast<uint32>(static_cast<int>(bits_of(above)) >> 31));
  }

  KHD static real decode(uint8 code, const Meta& meta) {
    return B::value_of(Codebook::values.x[code], meta);
  }
  KHD static uint8 encode(real x, const Measured& measured, uint32 random_bits) {
    const int near = candidate(x, measured);
    return code_of(x, measured, near, Codebook::thresholds.x[near], random_bits);
  }
};

}  // namespace jitstep
