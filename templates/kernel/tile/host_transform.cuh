// Computes the input of the rule's host transform, after the reductions that do not read its result.
#pragma once
#include "apply.cuh"

namespace jitstep {

template <class S, class Cursor>
KHD void host_transform_tile(const Scope<S>& scope, const Cursor& at) {
  using Shape = typename ApplyTile<S>::Shape;
  Fragment<S, Shape> f;
  load_fragment<S, Shape, false>(scope, at, f);
  real transformed[Shape::fragment];
  for_elements<S, S::transform_pass, Shape, false>(
      scope, at, f, [&](int i, uint32, const auto& e, const auto&, const auto& rule) {
        transformed[i] = S::Rule::Body::transformed(e, rule);
      });
  store_values<Shape>(
      static_cast<real*>(scope.step.transformed), at, [](int64 e) { return e; },
      [&](int i) { return transformed[i]; });
}

template <class S>
KHD void host_transform(const Args& args, Range range) {
  fill_codebooks<S>();
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> scope =
        scope_of<S, S::transform_pass>(args, item.tensor, preparation.of(args, item.tensor));
    for_tiles<S>(scope, item, [&](const TilePosition& at) {
      with_cursor(at, [&](const auto& cursor) { host_transform_tile<S>(scope, cursor); });
    });
  }
}

// In a skipped step, the host transform gets zeros. No kernel reads its result.
template <class S>
KHD void host_transform_zeros(const Args& args, Range range) {
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> scope = scope_without_scalars<S>(args, item.tensor);
    for_tiles<S>(scope, item, [&](const TilePosition& at) {
      with_cursor(at, [&](const auto& cursor) {
        store_values<typename ApplyTile<S>::Shape>(
            static_cast<real*>(scope.step.transformed), cursor, [](int64 e) { return e; },
            [](int) { return real(0); });
      });
    });
  }
}

}  // namespace jitstep
