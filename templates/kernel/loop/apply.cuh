// One thread's last launch of a step. The loop over elements also stores them. It buffers elements in an array only
// until their block's scale is known.
#pragma once
#include "load.cuh"

namespace jitstep {

// The codes of Count values that share a Meta, with the codec's auxiliary state if it has any. It may overwrite the
// values.
template <class S, int I, int Count, bool HasAuxState>
struct EncodedBy : NewlyEncodedRange<typename S::template Codec<I>::Body, Count> {
  using C = typename S::template Codec<I>::Body;
  KHD EncodedBy(const Scope<S>&, const ElementRange&, const real* x, const Measured<C>& meta)
      : NewlyEncodedRange<C, Count>(x, meta) {}
};
template <class S, int I, int Count>
class EncodedBy<S, I, Count, true> {
  using C = typename S::template Codec<I>::Body;

 public:
  KHD EncodedBy(const Scope<S>& scope, const ElementRange& elements, const real* x,
                const Measured<C>& meta)
      : x_(x), meta_(meta), aux_(scope, elements) {}
  KHD auto code(int i, uint32 random_bits) const {
    return C::encode(x_[i], meta_, random_bits, aux_[i]);
  }

 private:
  const real* x_;
  Measured<C> meta_;
  AuxStateOfRange<S, I, Count, true> aux_;
};
template <class S, int I, int Count>
requires HasNormalize<typename S::template Codec<I>::Body>
struct EncodedBy<S, I, Count, true>
    : NewlyEncodedRange<typename S::template Codec<I>::Body::ScaledCodec, Count> {
  using C = typename S::template Codec<I>::Body;
  KHD EncodedBy(const Scope<S>& scope, const ElementRange& elements, real* x, const NoMeta& none)
      : NewlyEncodedRange<typename C::ScaledCodec, Count>(normalize(scope, elements, x), none) {}

 private:
  KHD static const real* normalize(const Scope<S>& scope, const ElementRange& elements, real* x) {
    const AuxStateOfRange<S, I, Count, true> aux(scope, elements);
    // vectorized: the loop that encodes
    INDEPENDENT
    for (int i = 0; i < Count; ++i) x[i] = C::normalize(x[i], aux[i]);
    return x;
  }
};

// Encodes count values of slot I from element base, which share a Meta. x must have space for a whole block. The
// first value fills a partial block, because it changes no key. So no loop has a remainder.
template <class S, int I>
KHD void encode_range(const Scope<S>& scope, int64 base, int count, real* x) {
  using Component = typename S::template Codec<I>;
  using C = typename Component::Body;
  constexpr int kCount = C::block > 1 ? C::block : kLeaf;
  const SlotBuffers& slot = scope.tensor.slots[I];
  for (int i = count; i < kCount; ++i) x[i] = x[0];
  Measured<C> meta{};
  if constexpr (C::block > 1) {
    meta = measure<C, kCount>(x);
    static_cast<typename C::Meta*>(slot.meta)[base / C::block] = meta;
  }
  const RandomRange<C::random ? kCount : 0> random(random_key(scope, I + 1),
                                                   scope.tensor.offset + base);
  const EncodedBy<S, I, kCount, Component::has_aux_state> encoded(scope, whole_range(base, count),
                                                                  x, meta);
  typename CodeStorage<typename C::Code>::Register code[kCount];
  // vectorized: the loop that encodes
  INDEPENDENT
  for (int i = 0; i < kCount; ++i) code[i] = encoded.code(i, random[i]);
  StoredCodes<typename C::Code>::store(code, slot.codes, base, count);
}

// Writes element i of a range of weights, and its residual.
template <class S, class Residual>
KHD void store_weight(typename S::P::Bits* p, Residual* residual, int i, real x,
                      uint32 random_bits) {
  if constexpr (kSame<Residual, NoResidual>) {
    p[i] = S::Weights::store(x, random_bits);
  } else {
    Residual low_bits{};
    p[i] = S::Weights::store(x, random_bits, low_bits);
    residual[i] = low_bits;
  }
}

// Whether the loop over elements writes a slot's code.
template <class Component>
constexpr bool encodes_at_once() {
  if constexpr (kCoded<Component>)
    return Component::Body::block == 1 && !Component::Body::random && !Component::has_aux_state &&
           !kSame<typename Component::Body::Code, Nibble>;
  else
    return true;
}

// Pointers to the codes of slots, as local variables. Compilers assume that a write of bytes may change pointers in
// memory.
template <class S>
struct CodesOfSlots {
  void* of[S::slots > 0 ? S::slots : 1];
  KHD explicit CodesOfSlots(const TensorRecord& tensor) {
    for (int i = 0; i < S::slots; ++i) of[i] = tensor.slots[i].codes;
  }
};

// Applies the rule to elements base to base + count - 1: whole blocks, except at the tensor's end.
template <class S, int Pass, int Most>
KHD void apply_loop(const Scope<S>& scope, int64 base, int count) {
  using W = typename S::Weights;
  const CodesOfSlots<S> codes(scope.tensor);
  real next[S::slots > 0 ? S::slots : 1][Most];
  for (int start = 0; start < count; start += kLeaf) {
    const int length = min(count - start, kLeaf);
    const int64 first = base + start;
    auto* p = static_cast<typename S::P::Bits*>(scope.tensor.p) + first;
    auto* residual = static_cast<typename W::Residual*>(scope.tensor.residual) + first;
    const RandomRange<W::random ? kLeaf : 0> random(random_key(scope, weights_stream<S>()),
                                                    scope.tensor.offset + first);
    const ElementRange elements = whole_range(first, length);
    for_range<S, Pass>(scope, elements, [&](int i, auto& e, const auto&, const auto& rule) {
      S::Rule::Body::update_param(e, rule);
      store_weight<S>(p, residual, i, e.p, random[i]);
      static_for<S::slots>([&](auto s) {
        constexpr int I = decltype(s)::value;
        using Component = typename S::template Codec<I>;
        if constexpr (kCoded<Component>) {
          const real x = flush_subnormal(S::template slot<I>(e).next);
          if constexpr (encodes_at_once<Component>())
            (static_cast<typename Component::Body::Code*>(codes.of[I]) + first)[i] =
                Component::Body::encode(x, {}, 0);
          else
            next[I][start + i] = x;
        }
      });
    });
  }
  static_for<S::slots>([&](auto s) {
    constexpr int I = decltype(s)::value;
    using Component = typename S::template Codec<I>;
    if constexpr (!encodes_at_once<Component>()) {
      constexpr int kBlock = Component::Body::block > 1 ? Component::Body::block : kLeaf;
      for (int start = 0; start < count; start += kBlock)
        encode_range<S, I>(scope, base + start, min(count - start, kBlock), next[I] + start);
    }
  });
}

}  // namespace jitstep
