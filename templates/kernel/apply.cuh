// The last launch of a step. It computes and stores p and the new slots.
#pragma once
#include "finalize.cuh"
#include "loop.cuh"

namespace jitstep {

template <class S>
struct ApplyTile {
  static constexpr int size() {
    int size = kLeaf;
    static_for<S::slots>([&](auto i) {
      constexpr int b = block_of<typename S::template Codec<decltype(i)::value>>();
      size = b > size ? b : size;
    });
    return size;
  }
  using Shape = Tile<size(), S::config>;
};

inline constexpr int kMaximaSite = kFirstCodebookSite + kMaxSlots;  // after the codebooks

// The maximum over groups of Warps adjacent warps. All warps of a block must call this.
template <int Warps, int Threads>
KHD uint32 max_of_warps(uint32 x) {
  struct Maxima {
    uint32 of[Threads / 32];
  };
  uint32* const of = shared<Maxima, kMaximaSite>()->of;
  const uint32 warp = thread_index() / 32;
  const uint32 most = max_of_warp(x);
  if (thread_index() % 32 == 0) of[warp] = most;
  block_barrier();
  x = 0;
  UNROLL
  for (int i = 0; i < Warps; ++i) x = max(x, of[warp / Warps * Warps + i]);
  block_barrier();  // before the next call overwrites `of`
  return x;
}

// The maximum over groups of Lanes adjacent lanes.
template <int Lanes, int Threads>
KHD uint32 max_of_lanes(uint32 x) {
  if constexpr (Lanes > 32) {
    return max_of_warps<Lanes / 32, Threads>(x);
  } else if constexpr (Lanes == 32) {
    return max_of_warp(x);
  } else {
    UNROLL
    for (int lane = 1; lane < Lanes; lane *= 2) x = max(x, shuffle_xor(x, lane));
    return x;
  }
}

// Measures the codec block of each row of the fragment.
template <class Codec, class Shape, class Cursor>
KHD void measure(const real* x, const Cursor& at, Measured<Codec>* meta) {
  constexpr int V = Shape::vector, kKeys = Codec::keys;
  static_assert(Codec::block >= V, "a lane's vector must lie in one block");
  constexpr int kSpread = Codec::block / V < Shape::lanes ? Codec::block / V : Shape::lanes;
  constexpr int kRows = Codec::block > Shape::stride ? Codec::block / Shape::stride : 1;
  UNROLL
  for (int first = 0; first < Shape::rows; first += kRows) {
    uint32 key[kKeys] = {};
    UNROLL
    for (int n = 0; n < kKeys; ++n) {
      UNROLL
      for (int row = first; row < first + kRows; ++row)
        for (int k = 0; k < V; ++k) {
          const uint32 own = Codec::key(x[row * V + k], n);
          key[n] = max(key[n], at.has(Shape::row_start(row) + k) ? own : 0u);
        }
      key[n] = max_of_lanes<kSpread, Shape::threads>(key[n]);
    }
    const auto measured = Codec::measure(key);
    UNROLL
    for (int row = first; row < first + kRows; ++row) meta[row] = measured;
  }
}

template <class S, int I>
KHD auto encode_by_shared_codebook(real x, const auto& measured) {
  using C = typename S::template Codec<I>::Body;
  const int near = C::candidate(x, measured);
  return C::code_of(x, measured, near, SharedCodebook<S, I>::here().thresholds.x[near]);
}

template <class S, int I, class Shape, class Cursor, class Code>
KHD void encode_slot(const Scope<S>& scope, const Cursor& at, const real* next, Code* code,
                     Measured<typename S::template Codec<I>::Body>* meta) {
  using Component = typename S::template Codec<I>;
  using C = typename Component::Body;
  constexpr int V = Shape::vector;
  if constexpr (C::block > 1) measure<C, Shape>(next, at, meta);
  uint32 random[C::random ? Shape::fragment : 1] = {};
  if constexpr (C::random)
    random_fields<Shape>(random_key(scope, I + 1), scope.tensor.offset + at.base, random);
  UNROLL
  for (int row = 0; row < Shape::rows; ++row) {
    UNROLL
    for (int k = 0; k < V; ++k) {
      const int i = row * V + k;
      const uint32 bits = random[C::random ? i : 0];
      if constexpr (Component::has_aux_state)
        code[i] = C::encode(
            next[i], meta[row], bits,
            codec_aux_state<S, I, true>(
                scope,
                at.element(at.has(Shape::row_start(row) + k) ? Shape::row_start(row) + k : 0)));
      else if constexpr (Cursor::whole && shares_codebook<S, I>() && !C::random)
        code[i] = encode_by_shared_codebook<S, I>(next[i], meta[row]);
      else
        code[i] = C::encode(next[i], meta[row], bits);
    }
  }
}

template <class S, int I, class Shape, class Cursor, class Code>
KHD void store_slot(const Scope<S>& scope, const Cursor& at, const Code* code,
                    const Measured<typename S::template Codec<I>::Body>* meta) {
  using C = typename S::template Codec<I>::Body;
  using Storage = CodeStorage<typename C::Code>;
  const SlotBuffers& slot = scope.tensor.slots[I];
  const auto value = [&](int i) { return code[i]; };
  if constexpr (Cursor::whole)
    Storage::template store_rows<Shape>(slot.codes, at.base, value);
  else
    Storage::template store_some<Shape>(slot.codes, at, value);
  if constexpr (C::block > 1) {
    auto* metas =
        static_cast<typename C::Meta*>(slot.meta) + static_cast<uint64>(at.base) / C::block;
    UNROLL
    for (int row = 0; row < Shape::rows; ++row)
      if (Shape::row_start(row) % C::block == 0 && at.has(Shape::row_start(row)))
        metas[block_of_row<Shape, C::block>(row)] = meta[row];
  }
}

// Mode switches must be repeatable. Formats with stochastic rounding therefore round to nearest there, by this fixed
// draw in the middle of all draws.
inline constexpr uint32 kNearestDraw = 0x7fff;

template <class S, class Shape, bool Stochastic = true, class Cursor>
KHD void store_weights(const Scope<S>& scope, const Cursor& at, const real* p) {
  using W = typename S::Weights;
  using Bits = typename S::P::Bits;
  uint32 random[W::random && Stochastic ? Shape::fragment : 1] = {kNearestDraw};
  if constexpr (W::random && Stochastic)
    random_fields<Shape>(random_key(scope, weights_stream<S>()), scope.tensor.offset + at.base,
                         random);
  const auto offset = [&](int64 e) { return offset_in<S>(scope, kDenseP, &Dim::p_stride, e); };
  auto* to = static_cast<Bits*>(scope.tensor.p);
  const auto bits_for = [&](int i) { return random[W::random && Stochastic ? i : 0]; };
  if constexpr (kSame<typename W::Residual, NoResidual>) {
    store_values<Shape>(to, at, offset, [&](int i) { return W::store(p[i], bits_for(i)); });
  } else {
    typename W::Residual residual[Shape::fragment];
    store_values<Shape>(to, at, offset, [&](int i) {
      residual[i] = typename W::Residual{};
      return W::store(p[i], bits_for(i), residual[i]);
    });
    store_values<Shape>(
        static_cast<typename W::Residual*>(scope.tensor.residual), at, [](int64 e) { return e; },
        [&](int i) { return residual[i]; });
  }
}

// One slot's codes and metadata between encoding and storing.
template <class Component, class Shape>
struct Encoded {
  typename CodeStorage<typename Component::Body::Code>::Register code[Shape::fragment];
  Measured<typename Component::Body> meta[Shape::rows];
};

// Sets the gradient to zero.
template <class S, class Cursor>
KHD void clear_gradient(const Scope<S>& scope, const Cursor& at) {
  using Bits = typename S::G::Bits;
  const auto offset = [&](int64 e) { return offset_in<S>(scope, kDenseG, &Dim::g_stride, e); };
  store_values<typename ApplyTile<S>::Shape>(static_cast<Bits*>(scope.step.cleared), at, offset,
                                             [](int) { return Bits{}; });
}

template <class S, int Pass, class Cursor>
KHD void apply_tile(const Scope<S>& scope, const Cursor& at) {
  using Shape = typename ApplyTile<S>::Shape;
  using Rule = typename S::Rule::Body;
  Fragment<S, Shape> f;
  load_fragment<S, Shape>(scope, at, f);
  real next[S::slots > 0 ? S::slots : 1][Shape::fragment];
  real transformed[S::transformed ? Shape::fragment : 1];
  if constexpr (S::transformed)
    load_values<Shape>(
        static_cast<const real*>(scope.step.transformed), at, [](int64 e) { return e; },
        [&](int i, real x) { transformed[i] = x; });
  for_elements<S, Pass, Shape>(
      scope, at, f, [&](int i, uint32, auto& e, const auto&, const auto& rule) {
        if constexpr (S::transformed) e.transformed = transformed[i];
        Rule::update_param(e, rule);
        f.p[i] = e.p;
        static_for<S::slots>([&](auto s) {
          if constexpr (kCoded<typename S::template Codec<decltype(s)::value>>)
            next[decltype(s)::value][i] =
                flush_subnormal(S::template slot<decltype(s)::value>(e).next);
        });
      });
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
      if constexpr (loops<S>())
        apply_loop<S, Pass, ApplyTile<S>::size()>(scope, at.base, static_cast<int>(at.valid));
      with_cursor(at, [&](const auto& cursor) {
        if constexpr (!loops<S>()) apply_tile<S, Pass>(scope, cursor);
        if (scope.step.cleared != nullptr) clear_gradient<S>(scope, cursor);
      });
    });
    if constexpr (S::Rule::has_aux_state)
      if (item.first == 0 && thread_index() == 0)
        store_prepared_aux_state<S>(scope, item.tensor == args.shared_state_writer);
  }
}

}  // namespace jitstep
