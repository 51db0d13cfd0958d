// A table of values that codes index.
#pragma once

namespace jitstep {

template <int N>
struct Table {
  float x[N];
};

template <const auto& table>
inline constexpr int kSizeOf = sizeof table.x / sizeof(float);

}  // namespace jitstep
