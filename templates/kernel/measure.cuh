// The metadata of a codec's block.
#pragma once
#include "plan.cuh"

namespace jitstep {

// The result of `measure`: Meta, or a type derived from it. Its other fields are for `encode` and are not stored.
template <class Codec>
struct MeasureOf {
  using type = typename Codec::Meta;
};
template <class Result, class... Arguments>
Result result_of(Result (*)(Arguments...));
template <class Codec>
requires requires { result_of(&Codec::measure); }
struct MeasureOf<Codec> {
  using type = decltype(result_of(&Codec::measure));
};
template <class Codec>
using Measured = typename MeasureOf<Codec>::type;

// Whether `measure` of a component's codec reads the tensor's auxiliary state.
template <class Component>
concept MeasuresFromAuxState = requires(const uint32 (&key)[Component::Body::keys],
                                        const typename Component::AuxState& m) {
  Component::Body::measure(key, m);
};

// The metadata of a block with these maxima of keys. aux(): the codec's auxiliary state from this step.
template <class Component>
KHD auto measure_block(const uint32 (&key)[Component::Body::keys], [[maybe_unused]] auto&& aux) {
  if constexpr (MeasuresFromAuxState<Component>)
    return Component::Body::measure(key, aux());
  else
    return Component::Body::measure(key);
}

}  // namespace jitstep
