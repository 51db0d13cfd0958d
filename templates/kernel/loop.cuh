// One thread's loop over a range of dense elements, from memory to memory. The compiler vectorizes it. Code before
// and after the loop handles block metadata, and values that differ by entry of a domain. So the loop buffers
// elements in an array only until their block's scale is known.
#pragma once
#include "entry_ranges.cuh"

namespace jitstep {

template <class Component>
constexpr int block_of() {
  if constexpr (kStored<Component>)
    return Component::Body::block;
  else
    return 1;
}

template <class Component>
constexpr bool has_aux_state() {
  if constexpr (kStored<Component>)
    return Component::has_aux_state;
  else
    return false;
}

// ---- loads ---------------------------------------------------------------------------------------

// The decoded values of slot I in one range.
template <class S, int I, bool HasAuxState>
class StoredState {
 public:
  KHD StoredState(const Scope<S>& scope, const ElementRange& elements)
      : values_(scope.tensor.slots[I], elements.base, elements.count) {}
  KHD real operator[](int i) const { return values_[i]; }

 private:
  DecodedRange<typename S::template Codec<I>::Body> values_;
};
template <class S, int I>
class StoredState<S, I, true> {
  using C = typename S::template Codec<I>::Body;
  static constexpr int kBlock = C::block > 1 && C::block < kLeaf ? C::block : kLeaf;

 public:
  KHD StoredState(const Scope<S>& scope, const ElementRange& elements) {
    const SlotBuffers& slot = scope.tensor.slots[I];
    const CodesOfRange<typename C::Code> codes(slot.codes, elements.base, elements.count);
    const AuxStateOfRange<S, I, kLeaf, false> aux(scope, elements);
    for (int start = 0; start < elements.count; start += kBlock) {
      typename C::Meta meta{};
      if constexpr (C::block > 1)
        meta = static_cast<const typename C::Meta*>(slot.meta)[(elements.base + start) / C::block];
      // vectorized: the loop that decodes
      INDEPENDENT
      for (int i = max(start, elements.begin); i < min(start + kBlock, elements.end); ++i)
        values_[i] = C::decode(codes.begin()[i], meta, aux[i]);
    }
  }
  KHD real operator[](int i) const { return values_[i]; }

 private:
  real values_[kLeaf];
};

// The inner codec decodes normalized values.
template <class S, int I>
requires HasNormalize<typename S::template Codec<I>::Body>
class StoredState<S, I, true> {
  using C = typename S::template Codec<I>::Body;

 public:
  KHD StoredState(const Scope<S>& scope, const ElementRange& elements)
      : coded_(scope.tensor.slots[I].codes, elements.base, elements.count), aux_(scope, elements) {}
  KHD real operator[](int i) const { return C::denormalize(coded_.value(i, {}), aux_[i]); }

 private:
  EncodedRange<typename C::ScaledCodec> coded_;
  AuxStateOfRange<S, I, kLeaf, false> aux_;
};

// A slot without codes reads only auxiliary state, and only for elements that the loop uses.
template <class S, int I>
requires(!kCoded<typename S::template Codec<I>>) class StoredState<S, I, true> {
 public:
  KHD StoredState(const Scope<S>& scope, const ElementRange& elements) : aux_(scope, elements) {}
  KHD real operator[](int i) const { return S::template Codec<I>::Body::decode({}, {}, aux_[i]); }

 private:
  AuxStateOfRange<S, I, kLeaf, false> aux_;
};

// The previous values of slot I in one range.
template <class S, int I, class Component = typename S::template Codec<I>>
class PreviousValues {
 public:
  KHD PreviousValues(const Scope<S>& scope, const ElementRange& elements)
      : stored_(scope, elements), prev_(scope) {}
  KHD real operator[](int i) const { return prev_(stored_[i]); }

 private:
  StoredState<S, I, Component::has_aux_state> stored_;
  PreviousValue<S, I> prev_;
};
template <class S, int I>
class PreviousValues<S, I, Absent> {
 public:
  KHD PreviousValues(const Scope<S>& scope, const ElementRange&) : initial_(scope.initial.of[I]) {}
  KHD real operator[](int) const { return initial_; }

 private:
  real initial_;
};

// The weights of one range, with their residuals if an earlier step has set them.
template <class S, class Residual = typename S::Weights::Residual>
class PreviousWeights {
  using Bits = decltype(bits_of(real()));

 public:
  KHD PreviousWeights(const Scope<S>& scope, int64 base)
      : p_(static_cast<const typename S::P::Bits*>(scope.tensor.p) + base),
        residual_(static_cast<const Residual*>(scope.tensor.residual) + base),
        held_(residual_is_set(scope) ? ~Bits{0} : Bits{0}) {}
  KHD real operator[](int i) const {
    const Bits stored = bits_of(S::Weights::load(p_[i], residual_[i]));
    return number_of((stored & held_) | (bits_of(S::Weights::first(p_[i])) & ~held_));
  }

 private:
  const typename S::P::Bits* p_;
  const Residual* residual_;
  Bits held_;
};
template <class S>
class PreviousWeights<S, NoResidual> {
 public:
  KHD PreviousWeights(const Scope<S>& scope, int64 base)
      : p_(static_cast<const typename S::P::Bits*>(scope.tensor.p) + base) {}
  KHD real operator[](int i) const { return S::Weights::load(p_[i]); }

 private:
  const typename S::P::Bits* p_;
};

// A slot's previous values, with the slot's number.
template <int I, class Values>
struct Numbered {
  const Values& values;
};

// Calls f with Numbered values of each slot. Each slot's decoder is a separate local variable, so that compilers drop
// decodes that this pass does not read. They do not drop members of one object.
template <class S, int I = 0, class F, class... Before>
KHD void with_prev_values(const Scope<S>& scope, const ElementRange& elements, F&& f,
                          const Before&... before) {
  if constexpr (I == S::slots) {
    f(before...);
  } else {
    const PreviousValues<S, I> values(scope, elements);
    with_prev_values<S, I + 1>(scope, elements, f, before...,
                               Numbered<I, PreviousValues<S, I>>{values});
  }
}

template <class S, int I, class Values>
KHD void set_numbered(Element<typename S::Slots>& e, const Numbered<I, Values>& slot, int i) {
  set_slot<S, I>(e, slot.values[i]);
}

// The new values of slot I, which has no codes, for a range's elements, if they are Known.
template <class S, int I, bool Known>
class StoredOfRange {
 public:
  KHD StoredOfRange(const Scope<S>& scope, const ElementRange& elements) : aux_(scope, elements) {}
  KHD void put(int i, auto& e) const { set_stored<S, I>(e, aux_[i]); }

 private:
  AuxStateOfRange<S, I, kLeaf, true> aux_;
};
template <class S, int I>
struct StoredOfRange<S, I, false> {
  KHD StoredOfRange(const Scope<S>&, const ElementRange&) {}
  KHD void put(int, auto&) const {}
};

// A template with the slot number as its parameter, as Each (core/list.cuh) requires.
template <class S, int Pass>
struct StoredSlotsOfRange {
  template <int I>
  using Of = StoredOfRange<S, I, knows_what_is_stored<S, I, Pass>()>;
};
template <class S, int Pass>
using StoredSlots = Each<S::slots, StoredSlotsOfRange<S, Pass>::template Of>;

// Calls f(i, element, gradient context, rule context) for the elements of a range. Computes new slots if this pass
// has all values that they depend on.
template <class S, int Pass, class F>
KHD void for_range(const Scope<S>& scope, const ElementRange& elements, F&& f) {
  const PreviousWeights<S> p(scope, elements.base);
  const auto* g = static_cast<const typename S::G::Bits*>(scope.step.g) + elements.base;
  const EntryCoefficients<S, Pass> entries(scope, elements);
  const StoredSlots<S, Pass> stored(scope, elements);
  const auto gradient = scope.gradient;
  const auto rule = scope.rule;
  const int64 first = scope.tensor.offset + elements.base;
  with_prev_values<S>(scope, elements, [&](const auto&... slots) {
    // vectorized: the loop over elements
    INDEPENDENT
    for (int i = elements.begin; i < elements.end; ++i) {
      Element<typename S::Slots> e;
      e.p = p[i];
      e.g = S::Gradient::Body::scale(static_cast<real>(S::G::load(g[i])), gradient);
      e.index = first + i;
      (set_numbered<S>(e, slots, i), ...);
      auto element_gradient = gradient;
      auto element_rule = rule;
      entries.visit([&](auto, const auto& of) { of.put(i, element_gradient, element_rule); });
      advance<S, Pass>(e, element_gradient, element_rule);
      stored.visit([&](auto, const auto& of) { of.put(i, e); });
      f(i, e, element_gradient, element_rule);
    }
  });
}

// ---- stores --------------------------------------------------------------------------------------

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
    const auto* transformed = static_cast<const real*>(scope.step.transformed) + first;
    const RandomRange<W::random ? kLeaf : 0> random(random_key(scope, weights_stream<S>()),
                                                    scope.tensor.offset + first);
    const ElementRange elements = whole_range(first, length);
    for_range<S, Pass>(scope, elements, [&](int i, auto& e, const auto&, const auto& rule) {
      if constexpr (S::transformed) e.transformed = transformed[i];
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
