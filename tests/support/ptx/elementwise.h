// Operations on the values of each lane alone, made from functions of one lane.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "support/ptx/forms.h"
#include "support/ptx/warp.h"

namespace jitstep::ptx {

/// Calls body(lane) for each lane of the mask. The loop over all lanes has no condition, so that compilers vectorize
/// it.
template <class Body>
inline void for_lanes(Mask lanes, const Body& body) {
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) body(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) body(std::countr_zero(lanes));
  }
}

/// The values of one operand. A `bool` is a predicate.
template <class T>
struct Values {
  const T* values;
  Values(Warp& warp, RegOffset reg) : values(warp.values<const T>(reg)) {}
  T operator[](int lane) const { return values[lane]; }
};
template <>
struct Values<bool> {
  Mask mask;
  Values(Warp& warp, RegOffset reg) : mask(*warp.values<const Mask>(reg)) {}
  bool operator[](int lane) const { return mask >> lane & 1; }
};

template <class F, class R, class... A, std::size_t... I>
void run_elementwise(Warp& warp, const Instruction& i, Mask lanes, std::index_sequence<I...>) {
  const auto of_lane = [&](const auto&... from) {
    if constexpr (std::is_same_v<R, bool>) {
      Mask result = 0;
      for_lanes(lanes, [&](int lane) { result |= Mask{F{}(from[lane]...)} << lane; });
      Mask& to = *warp.values<Mask>(i.at[0]);
      to = (to & ~lanes) | result;
    } else {
      R* const to = warp.values<R>(i.at[0]);
      for_lanes(lanes, [&](int lane) { to[lane] = static_cast<R>(F{}(from[lane]...)); });
    }
  };
  of_lane(Values<A>(warp, i.at[I + 1])...);
}

template <class T>
inline constexpr int kBits = std::is_same_v<T, bool> ? 1 : 8 * static_cast<int>(sizeof(T));

/// Adds an operation: `function` maps values of the types A to one of the type R.
template <class R, class... A, class F>
void add_elementwise(Forms& forms, const std::string& name, F) {
  forms[name] = {.run =
                     [](Warp& warp, const Instruction& i, Mask lanes) {
                       run_elementwise<F, R, A...>(warp, i, lanes, std::index_sequence_for<A...>{});
                     },
                 .bits = {kBits<R>, kBits<A>...}};
}

/// The name of the type, such as "u32".
template <class T>
std::string name_of() {
  const std::string bits = std::to_string(8 * sizeof(T));
  return (std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "s" : "u") + bits;
}

/// Calls body with a value of each type.
template <class... T, class Body>
void for_types(const Body& body) {
  (body(T{}), ...);
}

}  // namespace jitstep::ptx
