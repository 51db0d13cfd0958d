// Which kernels contain assembly, and which compute without branches.
#pragma once
#include "plan.cuh"

namespace jitstep {

// Whether has<Codec>() is true for the codec of a slot.
template <class S, class F>
constexpr bool any_codec(F has) {
  bool found = false;
  static_for<S::slots>([&](auto i) {
    found |= has.template operator()<typename S::template Codec<decltype(i)::value>>();
  });
  return found;
}

// Whether a parameter or a slot has this 16-bit type.
template <class S, class Dtype>
constexpr bool stores_as() {
  return kSame<typename S::P, Dtype> || any_codec<S>([]<class C>() {
           return requires { requires kSame<typename C::Body::Rounded, Dtype>; };
         });
}

// Whether a codec converts by assembly. Those of 8-bit floats declare it.
template <class S>
constexpr bool decodes_by_assembly() {
  return any_codec<S>([]<class C>() {
    return requires { requires C::Body::has_assembly; };
  });
}

// Whether a slot has codes that are computed without branches.
template <class S>
constexpr bool has_quick_slots() {
  return any_codec<S>([]<class C>() {
    return requires { requires C::Body::quick; };
  });
}

// Whether elements of one tile may have different results of reductions, such as one per row.
template <class S>
constexpr bool has_entry_results() {
  bool has = false;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if (R::component < kFirstCodecComponent && !R::uniform) has = true;
  });
  return has;
}

// Whether the rule has a form of update_param for ordinary operands, and this target is faster with it. A tile decides
// on the form by the results that all its elements share. The emulation uses it to show mistakes of the rule.
template <class S>
constexpr bool has_ordinary() {
  return S::config.threads > 1 && sizeof(real) == 4 && !has_entry_results<S>() && requires {
    requires S::Rule::Body::has_ordinary;
  };
}

// Whether a kernel contains assembly, which widens numbers and, in kernels that store elements, rounds them.
template <class S, bool Stores>
constexpr bool has_assembly() {
  return decodes_by_assembly<S>() || (Stores && kHasApproximations && has_ordinary<S>()) ||
         (kHas16Bits && (stores_as<S, Float16>() || kSame<typename S::G, Float16> ||
                         (Stores && stores_as<S, BFloat16>())));
}

}  // namespace jitstep
