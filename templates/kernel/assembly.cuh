// Which kernels contain assembly.
#pragma once
#include "plan.cuh"

namespace jitstep {

// Whether a parameter or a slot has this 16-bit type.
template <class S, class Dtype>
constexpr bool stores_as() {
  bool found = kSame<typename S::P, Dtype>;
  static_for<S::slots>([&](auto i) {
    using Component = typename S::template Codec<decltype(i)::value>;
    if constexpr (requires { typename Component::Body::Rounded; })
      found |= kSame<typename Component::Body::Rounded, Dtype>;
  });
  return found;
}

// Whether a codec converts by assembly. Those of 8-bit floats declare it.
template <class S>
constexpr bool decodes_by_assembly() {
  bool found = false;
  static_for<S::slots>([&](auto i) {
    using Component = typename S::template Codec<decltype(i)::value>;
    if constexpr (requires { Component::Body::has_assembly; })
      found |= Component::Body::has_assembly;
  });
  return found;
}

// Whether the rule has a form of update_param for ordinary operands, and this target is faster with it.
template <class S>
constexpr bool has_ordinary() {
  if constexpr (requires { S::Rule::Body::has_ordinary; })
    return kHasApproximations && sizeof(real) == 4 && S::Rule::Body::has_ordinary;
  else
    return false;
}

// Whether a kernel contains assembly, which widens numbers and, in kernels that store elements, rounds them.
template <class S, bool Stores>
constexpr bool has_assembly() {
  return decodes_by_assembly<S>() || (Stores && has_ordinary<S>()) ||
         (kHas16Bits && (stores_as<S, Float16>() || kSame<typename S::G, Float16> ||
                         (Stores && stores_as<S, BFloat16>())));
}

}  // namespace jitstep
