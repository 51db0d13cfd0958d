// Implementation of TypedOptions by a table of members. The generated rules.cpp includes and instantiates it.
#pragma once

#include <tuple>
#include <utility>

#include "jitstep/options.h"
#include "optim/options/option_fields.h"

namespace jitstep {

/// An option of a generated class: its index among the packed values, and the member that stores its value.
template <class Owner, class T>
struct OptionField {
  std::size_t index;
  T Owner::*value;
};
/// Deduces both types from the member.
template <class Owner, class T>
OptionField(std::size_t, T Owner::*) -> OptionField<Owner, T>;

namespace fields {

using List = std::vector<double>;

// Calls visit(index, member), or visit_list, for each option of a class.
template <class Fields, class Owner, class Visit, class VisitList>
void for_each(const Fields& fields, Owner& owner, const Visit& visit, const VisitList& visit_list) {
  const auto visit_one = [&](auto field) {
    auto& member = owner.*field.value;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, List>)
      visit_list(field.index, member);
    else
      visit(field.index, member);
  };
  std::apply([&](auto... field) { (visit_one(field), ...); }, fields);
}

}  // namespace fields

// The lists are at the end, in the order of the members.
template <class Derived>
void TypedOptions<Derived>::pack(std::vector<double>& to) const {
  bool any = false;
  fields::for_each(
      Derived::fields(), static_cast<const Derived&>(*this),
      [&](std::size_t index, const auto& value) { fields::write(to.data() + index, value); },
      [&](std::size_t index, const fields::List& list) {
        if (!std::exchange(any, true)) to.resize(index);
        to.push_back(static_cast<double>(list.size()));
        to.insert(to.end(), list.begin(), list.end());
      });
}

template <class Derived>
void TypedOptions<Derived>::unpack(const std::vector<double>& from) {
  const double* next = nullptr;
  fields::for_each(
      Derived::fields(), static_cast<Derived&>(*this),
      [&](std::size_t index, auto& value) { fields::read(from.data() + index, value); },
      [&](std::size_t index, fields::List& list) {
        if (next == nullptr) next = from.data() + index;
        const auto count = static_cast<std::ptrdiff_t>(*next++);
        list.assign(next, next + count);
        next += count;
      });
}

}  // namespace jitstep
