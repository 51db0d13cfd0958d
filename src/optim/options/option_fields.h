// Conversion between C++ members and the array of packed values, for the generated option classes.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "jit/manifest/option_layout.h"

namespace jitstep::fields {

template <class T>
concept ChoiceType = std::is_enum_v<T>;

inline void write(double* to, double x) { *to = x; }
inline void write(double* to, bool x) { *to = x ? 1 : 0; }
inline void write(double* to, const std::optional<double>& x) { *to = x ? *x : jit::null_number(); }
template <class... Numbers>
void write(double* to, const std::tuple<Numbers...>& x) {
  std::apply([&](auto... one) { ((*to++ = one), ...); }, x);
}
template <ChoiceType T>
void write(double* to, T x) {
  *to = static_cast<int>(x);
}

inline void read(const double* from, double& x) { x = *from; }
inline void read(const double* from, bool& x) { x = *from != 0; }
inline void read(const double* from, std::optional<double>& x) {
  x = jit::is_null(*from) ? std::nullopt : std::optional<double>(*from);
}
template <class... Numbers>
void read(const double* from, std::tuple<Numbers...>& x) {
  std::apply([&](auto&... one) { ((one = *from++), ...); }, x);
}
template <ChoiceType T>
void read(const double* from, T& x) {
  x = static_cast<T>(static_cast<int>(*from));
}

}  // namespace jitstep::fields
