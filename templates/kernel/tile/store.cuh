// Encodes and stores a tile.
#pragma once
#include "../assembly.cuh"
#include "../measure.cuh"
#include "load.cuh"

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
  using Shape = Tile<size(), S::config, has_assembly<S, true>()>;
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

// Measures the block of slot I's codec of each row of the fragment.
template <class S, int I, class Shape, class Cursor>
KHD void measure(const Scope<S>& scope, const real* x, const Cursor& at,
                 Measured<typename S::template Codec<I>::Body>* meta) {
  using Component = typename S::template Codec<I>;
  using Codec = typename Component::Body;
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
    const auto measured =
        measure_block<Component>(key, [&] { return codec_aux_state<S, I, true>(scope, 0); });
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

// Whether whole tiles try encode_quickly for slot I: each codec block lies in one or more rows of a warp.
template <class S, int I, class Shape, class Component = typename S::template Codec<I>>
constexpr bool has_quick_codes() {
  if constexpr (kCoded<Component> && requires { requires Component::Body::quick; })
    return !Component::has_aux_state && sizeof(real) == 4 && S::config.threads > 1 &&
           Shape::lanes == 32 && Component::Body::block % Shape::stride == 0;
  return false;
}

// encode_slot flushes the other values itself.
template <class S, int I, class Shape>
KHD real flushed_for_codes(real x) {
  return has_quick_codes<S, I, Shape>() ? x : flush_subnormal(x);
}

// Encodes a lane's values of whole tiles, if all codec blocks are ordinary. Returns whether, the same for all lanes.
template <class S, int I, class Shape, class Code>
KHD bool encode_quickly(const real* next, Code* code,
                        Measured<typename S::template Codec<I>::Body>* meta) {
  using C = typename S::template Codec<I>::Body;
  constexpr int kRows = C::block / Shape::stride, kValues = kRows * Shape::vector;
  bool ordinary = true;
  UNROLL
  for (int first = 0; first < Shape::rows; first += kRows) {
    uint32 key[1] = {};
    UNROLL
    for (int i = 0; i < kValues; ++i)
      key[0] = max(key[0], C::template quick_key<C::is_signed>(next[first * Shape::vector + i]));
    key[0] = max_of_warp(key[0]);
    ordinary = ordinary && C::is_ordinary(key[0]);
    const auto measured = C::measure(key);
    UNROLL
    for (int row = first; row < first + kRows; ++row) meta[row] = measured;
  }
  if (!ordinary) return false;
  UNROLL
  for (int i = 0; i < Shape::fragment; ++i)
    code[i] = C::quick_code(next[i], meta[i / Shape::vector], [](uint32 candidate) {
      if constexpr (shares_codebook<S, I>())
        return SharedCodebook<S, I>::here().thresholds.x[candidate];
      else
        return 0.0f;
    });
  return true;
}

// Stream: of the random bits.
template <class S, int I, class Shape, int Stream = I + 1, class Cursor, class Code>
KHD void encode_slot(const Scope<S>& scope, const Cursor& at, real* next, Code* code,
                     Measured<typename S::template Codec<I>::Body>* meta) {
  using Component = typename S::template Codec<I>;
  using C = typename Component::Body;
  constexpr int V = Shape::vector;
  if constexpr (Cursor::whole && has_quick_codes<S, I, Shape>())
    if (encode_quickly<S, I, Shape>(next, code, meta)) return;
  if constexpr (has_quick_codes<S, I, Shape>()) {
    UNROLL
    for (int i = 0; i < Shape::fragment; ++i) next[i] = flush_subnormal(next[i]);
  }
  if constexpr (C::block > 1) measure<S, I, Shape>(scope, next, at, meta);
  uint32 random[C::random ? Shape::fragment : 1] = {};
  if constexpr (C::random)
    random_fields<Shape>(random_key(scope, Stream), scope.tensor.offset + at.base, random);
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
    auto* metas = Shape::in_memory(static_cast<typename C::Meta*>(slot.meta)) +
                  static_cast<uint64>(at.base) / C::block;
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

}  // namespace jitstep
