// Dynamic-exponent code books (Dettmers, arXiv 2110.02861): each power of ten below 1 holds twice as
// many values as the one before it, the midpoints of equal intervals of [0.1, 1]; then 0 and 1.
// Built in float by torch's scalar linspace; reference values in tests/golden (`codebooks`).
#pragma once
#include "list.cuh"

namespace jitstep {

template <int N>
struct Table {
  float x[N];
};

// The magnitudes in order: 0, then `decades` powers of ten of which the first holds `finest` values,
// then 1: finest * (2^decades - 1) + 2 of them.
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
  // At k: the smallest magnitude that is nearer to value k than to value k - 1, or as near.
  static constexpr Table<count + 1> thresholds() {
    const Table<count> value = values();
    Table<count + 1> table{};
    for (int k = 1; k < count; ++k) table.x[k] = (value.x[k - 1] + value.x[k]) / 2;
    table.x[count] = 2;
    return table;
  }
};

// Codes 0 to 2^bits - 1 in ascending order of value. A signed book has no -1.
template <int Bits>
constexpr Table<1 << Bits> signed_book() {
  constexpr auto magnitude = Magnitudes<Bits - 1, 1>::values();
  constexpr int zero = (1 << (Bits - 1)) - 1;
  Table<1 << Bits> book{};
  for (int code = 0; code < 1 << Bits; ++code)
    book.x[code] = code < zero ? -magnitude.x[zero - code] : magnitude.x[code - zero];
  return book;
}

// Where a magnitude lies, to within one place: arithmetic only, no search. One decade holds
// Finest << d values in equal steps, so a place is a linear function of y within it.
template <int Decades, int Finest>
KHD int place_near(float y) {
  using M = Magnitudes<Decades, Finest>;
  constexpr float per_interval = Finest / 0.9f;
  constexpr float first_slope = per_interval / M::decade(0);
  float slope = first_slope;
  float start = 1 - 0.1f * per_interval;
  int low = 1;
  static_for<Decades - 1>([&](auto i) {
    constexpr int d = decltype(i)::value + 1;
    constexpr int begin = Finest * ((1 << d) - 1) + 1;
    constexpr float threshold = M::thresholds().x[begin];
    constexpr float intervals = static_cast<float>(1 << d) * per_interval;
    constexpr float own_slope = intervals / M::decade(d);
    constexpr float own_start = static_cast<float>(begin) - 0.1f * intervals;
    const bool here = y >= threshold;
    slope = here ? own_slope : slope;
    start = here ? own_start : start;
    low = here ? begin : low;
  });
  const float inside = min(max(y, 0.0f), 1.0f);  // a NaN becomes 0 before it becomes an integer
  const int k = static_cast<int>(fma(inside, slope, start));
  return max(low, min(k, M::count - 1));
}

}  // namespace jitstep
