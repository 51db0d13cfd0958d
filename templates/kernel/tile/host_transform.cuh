// Computes the input of one of the rule's host transforms, after the reductions that do not read its result.
#pragma once
#include "apply.cuh"

namespace jitstep {

// T: the transform.
template <class S, class T, class Cursor>
KHD void host_transform_tile(const Scope<S>& scope, const Cursor& at) {
  using Shape = typename ApplyTile<S>::Shape;
  Fragment<S, Shape> f;
  load_fragment<S, Shape, T::number>(scope, at, f);
  real transformed[Shape::fragment];
  for_elements<S, T::pass, Shape, T::number>(
      scope, at, f, [&](int i, uint32, const auto& e, const auto&, const auto& rule) {
        transformed[i] = T::input(e, rule);
      });
  store_values<Shape>(
      static_cast<real*>(scope.step.transformed[T::number]), at, [](int64 e) { return e; },
      [&](int i) { return transformed[i]; });
}

template <class S, int K>
KHD void host_transform(const Args& args, Range range) {
  using T = typename At<K, typename S::Transforms>::type;
  fill_codebooks<S>();
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> scope =
        scope_of<S, T::pass>(args, item.tensor, preparation.of(args, item.tensor));
    for_tiles<S>(scope, item, [&](const TilePosition& at) {
      with_cursor(at, [&](const auto& cursor) { host_transform_tile<S, T>(scope, cursor); });
    });
  }
}

// In a skipped step, the host transform gets zeros. No kernel reads its result.
template <class S, int K>
KHD void host_transform_zeros(const Args& args, Range range) {
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> scope = scope_without_scalars<S>(args, item.tensor);
    for_tiles<S>(scope, item, [&](const TilePosition& at) {
      with_cursor(at, [&](const auto& cursor) {
        store_values<typename ApplyTile<S>::Shape>(
            static_cast<real*>(scope.step.transformed[K]), cursor, [](int64 e) { return e; },
            [](int) { return real(0); });
      });
    });
  }
}

}  // namespace jitstep
