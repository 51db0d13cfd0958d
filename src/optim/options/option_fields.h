// Conversion between C++ members and jit::Value, for the generated option classes.
#pragma once

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "jitstep/jit/value.h"

namespace jitstep::fields {

/// Names of a choice's values, in order. The generated source specializes it for each enumeration.
template <class Choice>
struct Names;

template <class T>
concept ChoiceType = std::is_enum_v<T>;

inline jit::Value to_value(double x) { return x; }
inline jit::Value to_value(bool x) { return x; }
inline jit::Value to_value(const std::optional<double>& x) {
  return x ? jit::Value(*x) : jit::Value();
}
inline jit::Value to_value(const std::vector<double>& x) { return x; }
template <class... Numbers>
jit::Value to_value(const std::tuple<Numbers...>& x) {
  return std::apply([](auto... one) { return jit::Value::Numbers{one...}; }, x);
}
template <ChoiceType T>
jit::Value to_value(T x) {
  return Names<T>::names[static_cast<int>(x)];
}

inline void from_value(const jit::Value& value, double& x) { x = value.number(); }
inline void from_value(const jit::Value& value, bool& x) { x = value.boolean(); }
inline void from_value(const jit::Value& value, std::optional<double>& x) {
  x = value.is_null() ? std::nullopt : std::optional<double>(value.number());
}
inline void from_value(const jit::Value& value, std::vector<double>& x) { x = value.numbers(); }
template <class... Numbers>
void from_value(const jit::Value& value, std::tuple<Numbers...>& x) {
  std::size_t i = 0;
  std::apply([&](auto&... one) { ((one = value.numbers().at(i++)), ...); }, x);
}
template <ChoiceType T>
void from_value(const jit::Value& value, T& x) {
  int i = 0;
  for (const char* name : Names<T>::names) {
    if (value.choice() == name) x = static_cast<T>(i);
    ++i;
  }
}

inline void append(std::vector<double>& numbers, double x) {
  // NaN stands for null. It is unequal to itself, so a snapshot with NaN would differ in every step.
  const bool null = std::isnan(x);
  numbers.insert(numbers.end(), {null ? 1.0 : 0.0, null ? 0.0 : x});
}
inline void append(std::vector<double>& numbers, bool x) { numbers.push_back(x ? 1 : 0); }
inline void append(std::vector<double>& numbers, const std::optional<double>& x) {
  numbers.push_back(x ? 1 : 0);
  append(numbers, x.value_or(0));
}
inline void append(std::vector<double>& numbers, const std::vector<double>& x) {
  numbers.push_back(static_cast<double>(x.size()));
  for (const double one : x) append(numbers, one);
}
template <class... Numbers>
void append(std::vector<double>& numbers, const std::tuple<Numbers...>& x) {
  std::apply([&](auto... one) { (append(numbers, one), ...); }, x);
}
template <ChoiceType T>
void append(std::vector<double>& numbers, T x) {
  numbers.push_back(static_cast<int>(x));
}

}  // namespace jitstep::fields
