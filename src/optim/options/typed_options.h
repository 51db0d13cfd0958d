// Implementation of TypedOptions by a table of members. The generated rules.cpp includes and instantiates it.
#pragma once

#include <tuple>

#include "jitstep/options.h"
#include "optim/options/option_fields.h"

namespace jitstep {
namespace fields {

// Calls visit(index, field) for each option of a class.
template <class Owner, class Visit>
void for_each(const Visit& visit) {
  std::size_t index = 0;
  std::apply([&](auto... field) { (visit(index++, field), ...); }, Owner::fields());
}

}  // namespace fields

template <class Derived>
const std::vector<std::string>& TypedOptions<Derived>::names() const {
  static const auto names = std::apply(
      [](auto... field) { return std::vector<std::string>{field.name...}; }, Derived::fields());
  return names;
}

template <class Derived>
jit::Value TypedOptions<Derived>::get(std::size_t option) const {
  jit::Value value;
  fields::for_each<Derived>([&](std::size_t index, auto field) {
    if (index == option) value = fields::to_value(static_cast<const Derived*>(this)->*field.value);
  });
  return value;
}

template <class Derived>
void TypedOptions<Derived>::put(std::size_t option, const jit::Value& value) {
  this->mark(option);
  fields::for_each<Derived>([&](std::size_t index, auto field) {
    if (index == option) fields::from_value(value, static_cast<Derived*>(this)->*field.value);
  });
}

template <class Derived>
void TypedOptions<Derived>::snapshot(std::vector<double>& numbers) const {
  numbers = {this->formats_version()};
  fields::for_each<Derived>([&](std::size_t, auto field) {
    fields::append(numbers, static_cast<const Derived*>(this)->*field.value);
  });
}

}  // namespace jitstep
