// Converts the only slot of a tensor from codes to values and back, and its weights to the values that the rule sees,
// in element order. Inspection, checkpoints of other formats, and tests use it. The arguments are a Conversion, the
// tensor, and hyperparameters with the next step number.
#pragma once
#include "../occupancy.cuh"
#include "traversal.cuh"

namespace jitstep {

// Calls f(scope, tile) for every tile of the items in range. It moves values one by one.
template <class S, class F>
KHD void for_items(const Args& args, Range range, F&& f) {
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const StepRecord no_step{};
    const Scope<S> scope{args, args.tensors[item.tensor], no_step, args.hyper_params[0], {}, {},
                         {}};
    for_tiles<S>(scope, item, [&](const TilePosition& at) {
      f(scope, Linear<false>{at.base, at.valid});
    });
  }
}

template <class S>
KHD void decode(const Args& args, Range range) {
  using Shape = typename ApplyTile<S>::Shape;
  for_items<S>(args, range, [](const Scope<S>& scope, const Linear<false>& at) {
    real values[Shape::fragment];
    load_slot<S, 0, Shape>(scope, at, values);
    auto* to = static_cast<real*>(scope.args.conversion.to);
    store_values<Shape>(
        to, at, [](int64 e) { return e; }, [&](int i) { return values[i]; });
  });
}

template <class S>
KHD void decode_weights(const Args& args, Range range) {
  using Shape = typename ApplyTile<S>::Shape;
  for_items<S>(args, range, [](const Scope<S>& scope, const Linear<false>& at) {
    real values[Shape::fragment];
    load_weights<S, Shape>(scope, at, values);
    auto* to = static_cast<real*>(scope.args.conversion.to);
    store_values<Shape>(
        to, at, [](int64 e) { return e; }, [&](int i) { return values[i]; });
  });
}

// Writes the parameter and its residual. Never called for formats with stochastic rounding, which have no residual.
template <class S>
KHD void encode_weights(const Args& args, Range range) {
  using Shape = typename ApplyTile<S>::Shape;
  for_items<S>(args, range, [](const Scope<S>& scope, const Linear<false>& at) {
    real values[Shape::fragment];
    load_values<Shape>(
        static_cast<const real*>(scope.args.conversion.from), at, [](int64 e) { return e; },
        [&](int i, real x) { values[i] = x; });
    store_weights<S, Shape, false>(scope, at, values);
  });
}

template <class S, int Stream>
KHD void encode(const Args& args, Range range) {
  using Component = typename S::template Codec<0>;
  using Shape = typename ApplyTile<S>::Shape;
  for_items<S>(args, range, [](const Scope<S>& scope, const Linear<false>& at) {
    real values[Shape::fragment];
    load_values<Shape>(
        static_cast<const real*>(scope.args.conversion.from), at, [](int64 e) { return e; },
        [&](int i, real x) { values[i] = flush_subnormal(x); });
    Encoded<Component, Shape> encoded;
    encode_slot<S, 0, Shape, Stream>(scope, at, values, encoded.code, encoded.meta);
    store_slot<S, 0, Shape>(scope, at, encoded.code, encoded.meta);
  });
}

// Stream: of the random bits that `encode` reads.
template <class S, int Stream = 1>
struct Conversions {
  static constexpr int kThreads = S::config.threads;
  static constexpr int kBlocks = blocks_at_once<S>();
  KHD static void decode(const Args& args, Range range) { jitstep::decode<S>(args, range); }
  KHD static void encode(const Args& args, Range range) { jitstep::encode<S, Stream>(args, range); }
  KHD static void decode_weights(const Args& args, Range range) {
    jitstep::decode_weights<S>(args, range);
  }
  KHD static void encode_weights(const Args& args, Range range) {
    jitstep::encode_weights<S>(args, range);
  }
};

}  // namespace jitstep
