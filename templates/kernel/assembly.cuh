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

// Whether a kernel contains assembly, which widens float16, and, in kernels that store elements, rounds.
template <class S, bool Stores>
constexpr bool has_assembly() {
  return kHas16Bits && (stores_as<S, Float16>() || kSame<typename S::G, Float16> ||
                        (Stores && stores_as<S, BFloat16>()));
}

}  // namespace jitstep
