// The last launch of a step. It computes and stores p and the new slots.
#pragma once
#include "store.cuh"

namespace jitstep {

// Computes the new weights of a tile from the new slots.
template <class Arithmetic, class S, class Shape>
KHD void update_weights(const Scope<S>& scope, Fragment<S, Shape>& f, auto& elements) {
  UNROLL
  for (int i = 0; i < Shape::fragment; ++i) {
    S::Rule::Body::template update_param<Arithmetic>(elements[i], scope.rule);
    f.p[i] = elements[i].p;
  }
}

template <class S, int Pass, class Cursor>
KHD void apply_tile(const Scope<S>& scope, const Cursor& at) {
  using Shape = typename ApplyTile<S>::Shape;
  using Rule = typename S::Rule::Body;
  Fragment<S, Shape> f;
  load_fragment<S, Shape, S::transforms>(scope, at, f);
  real next[S::slots > 0 ? S::slots : 1][Shape::fragment];
  constexpr bool kOrdinary = Cursor::whole && has_ordinary<S>();
  ElementOf<S> element[kOrdinary ? Shape::fragment : 1];
  OrdinaryOperands operands;
  for_elements<S, Pass, Shape, S::transforms>(
      scope, at, f, [&](int i, uint32, auto& e, const auto&, const auto& rule) {
        if constexpr (kOrdinary) {
          Rule::include(e, operands);
          element[i] = e;
        } else {
          Rule::update_param(e, rule);
          f.p[i] = e.p;
        }
        static_for<S::slots>([&](auto s) {
          if constexpr (kCoded<typename S::template Codec<decltype(s)::value>>)
            next[decltype(s)::value][i] = flushed_for_codes<S, decltype(s)::value, Shape>(
                S::template slot<decltype(s)::value>(e).next);
        });
      });
  if constexpr (kOrdinary) {
    if (Rule::is_ordinary(scope.rule) && operands.are_ordinary())
      update_weights<Ordinary, S, Shape>(scope, f, element);
    else
      update_weights<Ieee, S, Shape>(scope, f, element);
  }
  store_weights<S, Shape>(scope, at, f.p);
  static_for<S::slots>([&](auto s) {
    using Component = typename S::template Codec<decltype(s)::value>;
    if constexpr (kCoded<Component>) {
      Encoded<Component, Shape> encoded;
      encode_slot<S, decltype(s)::value, Shape>(scope, at, next[decltype(s)::value], encoded.code,
                                                encoded.meta);
      store_slot<S, decltype(s)::value, Shape>(scope, at, encoded.code, encoded.meta);
    }
  });
}

// Calls f with the location of each of this team's tiles of an item. All teams iterate equally often, so that lanes
// of one warp stay together. A team past the end gets tiles without elements.
template <class S, class F>
KHD void for_tiles(const Scope<S>& scope, const Item& item, F&& f) {
  using Shape = typename ApplyTile<S>::Shape;
  constexpr int kChunk = S::config.leaves_per_item * kLeaf;
  static_assert(kChunk % Shape::size == 0, "a chunk holds whole tiles");
  const int64 first = item.first * kLeaf;
  const auto end = static_cast<uint32>(min<int64>(scope.tensor.n - first, kChunk));
  const bool vectors = is_dense_and_aligned(scope.step);
  ONE_BY_ONE
  for (uint32 start = 0; start < end; start += Shape::teams * Shape::size) {
    const uint32 at = start + Shape::team() * Shape::size;
    const bool whole = vectors && start + (Shape::last_in_lockstep() + 1) * Shape::size <= end;
    f(TilePosition{first + at, at < end ? min<uint32>(end - at, Shape::size) : 0, whole});
  }
}

// Stores the auxiliary state that only `prepare` writes, together with the tensor's first elements. Only the
// shared-state writer stores the shared state.
template <class S>
KHD void store_prepared_aux_state(const Scope<S>& scope, bool writes_shared_state) {
  if constexpr (!rule_finalizes<S, tensor>())
    store_aux_state<S, kRuleComponent, tensor>(scope.tensor, scope.hyper_params, 0, scope.aux);
  if constexpr (!rule_finalizes<S, all>())
    if (writes_shared_state)
      store_aux_state<S, kRuleComponent, all>(scope.tensor, scope.hyper_params, 0, scope.aux);
}

// The scope of a tensor whose step is skipped. It has no scalars.
template <class S>
KHD Scope<S> scope_without_scalars(const Args& args, int tensor) {
  const StepRecord& step = args.steps[tensor];
  return {args, args.tensors[tensor], step, args.hyper_params[step.hyper_index], {}, {}, {}};
}

// The work of a skipped step: clears gradients, and increments the step offsets of the tensor and of the optimizer.
template <class S>
KHD void skip(const Args& args, Range range) {
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> scope = scope_without_scalars<S>(args, item.tensor);
    if (scope.step.cleared != nullptr)
      for_tiles<S>(scope, item, [&](const TilePosition& at) {
        with_cursor(at, [&](const auto& cursor) { clear_gradient<S>(scope, cursor); });
      });
    if (item.first != 0 || thread_index() != 0) continue;
    ++*scope.hyper_params.step_offset;
    if (item.tensor == args.shared_state_writer) ++*scope.hyper_params.shared_step_offset;
  }
}

template <class S, int Pass>
KHD void apply(const Args& args, Range range) {
  fill_codebooks<S>();
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> scope = scope_of<S, Pass>(args, item.tensor, preparation.of(args, item.tensor));
    for_tiles<S>(scope, item, [&](const TilePosition& at) {
      S::Traversal::template apply_range<S, Pass>(scope, at);
      with_cursor(at, [&](const auto& cursor) {
        S::Traversal::template apply_tile<S, Pass>(scope, cursor);
        if (scope.step.cleared != nullptr) clear_gradient<S>(scope, cursor);
      });
    });
    if constexpr (S::Rule::has_aux_state)
      if (item.first == 0 && thread_index() == 0)
        store_prepared_aux_state<S>(scope, item.tensor == args.shared_state_writer);
  }
}

}  // namespace jitstep
