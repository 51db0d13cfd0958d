// One thread's last launch of a step. The loop over elements also stores them. It buffers elements in an array only
// until their block's scale is known, or an instruction rounds several.
#pragma once
#include "load.cuh"
#include "random_range.cuh"
#include "strip.cuh"

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
  KHD EncodedBy(const Scope<S>& scope, const ElementRange& elements, real* x,
                const Measured<C>& meta)
      : NewlyEncodedRange<typename C::ScaledCodec, Count>(normalize(scope, elements, x, meta), {}) {
  }

 private:
  KHD static const real* normalize(const Scope<S>& scope, const ElementRange& elements, real* x,
                                   [[maybe_unused]] const Measured<C>& meta) {
    if constexpr (C::block > 1) {
      // vectorized: the loop that encodes
      INDEPENDENT
      for (int i = 0; i < Count; ++i) x[i] = C::normalize(x[i], meta);
    } else {
      const AuxStateOfRange<S, I, Count, true> aux(scope, elements);
      // vectorized: the loop that encodes
      INDEPENDENT
      for (int i = 0; i < Count; ++i) x[i] = C::normalize(x[i], aux[i]);
    }
    return x;
  }
};

// Whether the loop over elements writes a slot's code.
template <class Component>
constexpr bool encodes_at_once() {
  if constexpr (kCoded<Component>)
    return Component::Body::block == 1 && !Component::has_aux_state &&
           (!Component::Body::random || rounds_randomly<typename Component::Body>()) &&
           !kSame<typename Component::Body::Code, Nibble>;
  else
    return true;
}

// What is encoded after the loop over elements: nothing, leaves, or blocks with metadata.
enum class Later { nothing, leaves, blocks };
template <class Component>
constexpr Later encoded_later() {
  if constexpr (encodes_at_once<Component>())
    return Later::nothing;
  else
    return Component::Body::block > 1 ? Later::blocks : Later::leaves;
}

// How many values are encoded together: those of a block, or of a leaf without blocks.
template <class C>
inline constexpr int kEncoded = C::block > 1 ? C::block : kLeaf;

// Measures the blocks of slot I in `count` elements from `base`, and stores their metadata. The first value fills a
// partial block, because it changes no key. So no loop has a remainder. All blocks of a tile are measured before the
// first is encoded, because the instructions that measure one wait for each other.
template <class S, int I, int Most, Later>
class MeasuredBlocks {
  using Component = typename S::template Codec<I>;
  using C = typename Component::Body;

 public:
  KHD MeasuredBlocks(const Scope<S>& scope, int64 base, int count, real (*next)[Most]) {
    auto* const metas =
        static_cast<typename C::Meta*>(scope.tensor.slots[I].meta) + base / C::block;
    for (int start = 0; start < count; start += C::block) {
      real* const x = next[I] + start;
      for (int i = count - start; i < C::block; ++i) x[i] = x[0];
      const Measured<C> meta = measure<Component, C::block>(
          x, [&] { return codec_aux_state<S, I, true>(scope, base + start); });
      of_[start / C::block] = meta;
      metas[start / C::block] = meta;
    }
  }
  KHD const Measured<C>& of(int start) const { return of_[start / C::block]; }

 private:
  Measured<C> of_[Most / C::block];
};
template <class S, int I, int Most>
struct MeasuredBlocks<S, I, Most, Later::leaves> {
  KHD MeasuredBlocks(const Scope<S>&, int64, int count, real (*next)[Most]) {
    for (int i = count; i % kLeaf > 0; ++i) next[I][i] = next[I][0];
  }
  KHD auto of(int) const { return Measured<typename S::template Codec<I>::Body>{}; }
};
template <class S, int I, int Most>
struct MeasuredBlocks<S, I, Most, Later::nothing> {
  KHD MeasuredBlocks(const Scope<S>&, int64, int, real (*)[Most]) {}
};
// A template with the slot number as its parameter, as Each (lang/list.cuh) requires.
template <class S, int Most>
struct MeasuredSlots {
  template <int I>
  using Of = MeasuredBlocks<S, I, Most, encoded_later<typename S::template Codec<I>>()>;
};

// Encodes count values of slot I from element base, which share a Meta. x must have space for a whole block.
template <class S, int I>
KHD void encode_range(const Scope<S>& scope, int64 base, int count, real* x,
                      const Measured<typename S::template Codec<I>::Body>& meta) {
  using Component = typename S::template Codec<I>;
  using C = typename Component::Body;
  constexpr int kCount = kEncoded<C>;
  const RandomRange<C::random ? kCount : 0> random(random_key(scope, I + 1),
                                                   scope.tensor.offset + base);
  const EncodedBy<S, I, kCount, Component::has_aux_state> encoded(scope, whole_range(base, count),
                                                                  x, meta);
  typename CodeStorage<typename C::Code>::Register code[kCount];
  // vectorized: the loop that encodes
  INDEPENDENT
  for (int i = 0; i < kCount; ++i) code[i] = encoded.code(i, random[i]);
  StoredCodes<typename C::Code>::store(code, scope.tensor.slots[I].codes, base, count);
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

// Pointers to the codes of slots, as local variables. Compilers assume that a write of bytes may change pointers in
// memory.
template <class S>
struct CodesOfSlots {
  void* of[S::slots > 0 ? S::slots : 1];
  KHD explicit CodesOfSlots(const TensorRecord& tensor) {
    for (int i = 0; i < S::slots; ++i) of[i] = tensor.slots[i].codes;
  }
};

// Whether instructions round the new values of slot I, or anything that a step stores.
template <class S, int I>
constexpr bool rounds_slot() {
  if constexpr (kCoded<typename S::template Codec<I>>)
    return rounds_strips<typename S::template Codec<I>::Body>();
  else
    return false;
}
template <class S>
constexpr bool has_strips() {
  bool any = rounds_strips<typename S::Weights>();
  static_for<S::slots>([&](auto s) { any = any || rounds_slot<S, decltype(s)::value>(); });
  return any;
}

// Whether instructions keep positive values of a slot positive, as its codec's `floored` does.
template <class C>
constexpr bool keeps_positive() {
  if constexpr (kFlushesFp16 && requires { C::keeps_positive; })
    return C::keeps_positive;
  else
    return false;
}
// What is rounded of a slot's new value. Subnormal numbers and -0 are special for most instructions.
template <class C>
KHD real before_rounding(real x) {
  if constexpr (requires { C::floored(x); } && !(kFlushesFp16 && requires { C::keeps_positive; }))
    return C::floored(flush_subnormal(x));
  else if constexpr (!kFlushesFp16 && requires { requires kSame<typename C::Rounded, Float16>; })
    return flush_subnormal(x);
  else
    return x;
}
// The classes of new values that instructions do not round as the codec does.
template <class C>
constexpr int special_slots() {
  return kSpecialSlots | (keeps_positive<C>() ? kNegative : 0);
}

// The random bits of a leaf for slot I, if its codes are written in the loop over elements.
template <class S, int I>
constexpr int draws_of_slot() {
  if constexpr (kCoded<typename S::template Codec<I>>)
    return rounds_randomly<typename S::template Codec<I>::Body>() ? kLeaf : 0;
  else
    return 0;
}
template <class S>
struct DrawsOfSlots {
  template <int I>
  struct Of : RandomRange<draws_of_slot<S, I>()> {
    KHD Of(const Scope<S>& scope, int64 first)
        : RandomRange<draws_of_slot<S, I>()>(random_key(scope, I + 1), first) {}
  };
};

// The new values of a strip, between the rule and instructions that round all of them. Without Used: of elements that
// are in no strip.
template <class S, bool Used>
struct Strip {
  using W = typename S::Weights;
  static constexpr bool rounds_weights = Used && rounds_strips<W>();
  template <int I>
  static constexpr bool rounds = Used&& rounds_slot<S, I>();
  // Compilers vectorize the loop for the smallest type in it, with as many elements as a register has of that type.
  static constexpr int size = (kSame<typename W::Residual, uint8> ? 2 : 1) * kRoundedAtOnce;

  real weight[size], next[S::slots > 0 ? S::slots : 1][size];

  // first: the index of the strip's first element. at: its index in the leaf. p: its weight.
  KHD void store(const CodesOfSlots<S>& codes, int64 first, int at, typename S::P::Bits* p,
                 const auto& weight_draws, const auto& slot_draws) const {
    if constexpr (rounds_weights)
      store_strip<W, kSpecialWeights>(weight, weight_draws.from(at), p,
                                      [](real x, uint32 random)
                                          INLINED { return W::store(x, random); });
    slot_draws.visit([&](auto s, const auto& draws) INLINED {
      constexpr int I = decltype(s)::value;
      if constexpr (rounds<I>) {
        using C = typename S::template Codec<I>::Body;
        store_strip<C, special_slots<C>()>(
            next[I], draws.from(at), static_cast<typename C::Code*>(codes.of[I]) + first,
            [](real x, uint32 random)
                INLINED { return C::encode(flush_subnormal(x), {}, random); });
      }
    });
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
    const Each<S::slots, DrawsOfSlots<S>::template Of> draws(scope, scope.tensor.offset + first);
    const ElementRange elements = whole_range(first, length);
    // Applies the rule to element i, which is number k of its strip.
    const auto apply = [&]<bool Used>(int i, Strip<S, Used>& strip, int k, auto& e,
                                      const auto& rule) INLINED {
      S::Rule::Body::update_param(e, rule);
      if constexpr (Strip<S, Used>::rounds_weights)
        strip.weight[k] = e.p;
      else
        store_weight<S>(p, residual, i, e.p, random[i]);
      draws.visit([&](auto s, const auto& bits) INLINED {
        constexpr int I = decltype(s)::value;
        using Component = typename S::template Codec<I>;
        if constexpr (kCoded<Component>) {
          const real x = S::template slot<I>(e).next;
          if constexpr (Strip<S, Used>::template rounds<I>)
            strip.next[I][k] = before_rounding<typename Component::Body>(x);
          else if constexpr (encodes_at_once<Component>())
            (static_cast<typename Component::Body::Code*>(codes.of[I]) + first)[i] =
                Component::Body::encode(flush_subnormal(x), {}, bits[i]);
          else
            next[I][start + i] = flush_subnormal(x);
        }
      });
    };
    with_elements<S, Pass>(scope, elements, [&](const auto& with_element) INLINED {
      int done = 0;
      if constexpr (has_strips<S>()) {
        constexpr int kSize = Strip<S, true>::size;
        for (; done + kSize <= length; done += kSize) {
          Strip<S, true> strip;
          const int at = done;
          // vectorized: the loop over a strip
          INDEPENDENT
          for (int k = 0; k < kSize; ++k)
            with_element(at + k, [&](auto& e, const auto&, const auto& rule)
                                     INLINED { apply(at + k, strip, k, e, rule); });
          strip.store(codes, first + at, at, p + at, random, draws);
        }
      }
      Strip<S, false> none;
      for_each_element(elements, done, with_element,
                       [&](int i, auto& e, const auto&, const auto& rule)
                           INLINED { apply(i, none, 0, e, rule); });
    });
  }
  real(*const values)[Most] = next;
  const Each<S::slots, MeasuredSlots<S, Most>::template Of> measured(scope, base, count, values);
  measured.visit([&](auto s, const auto& blocks) {
    constexpr int I = decltype(s)::value;
    using Component = typename S::template Codec<I>;
    if constexpr (!encodes_at_once<Component>()) {
      constexpr int kSize = kEncoded<typename Component::Body>;
      for (int start = 0; start < count; start += kSize)
        encode_range<S, I>(scope, base + start, min(count - start, kSize), next[I] + start,
                           blocks.of(start));
    }
  });
}

}  // namespace jitstep
