// One thread's walk over a run of dense elements, each of which depends on nothing but itself: a plain loop
// from memory to memory, which the compiler vectorises. What blocks of state need beside it is done before
// and after the loop, so that no element waits in an array but for its block's scale.
#pragma once
#include "coded_run.cuh"
#include "element.cuh"

namespace jitstep {

template <class Part>
constexpr int block_of() {
  if constexpr (kStored<Part>)
    return Part::Body::block;
  else
    return 1;
}

template <class Part>
constexpr bool remembers() {
  if constexpr (kStored<Part>)
    return Part::remembers;
  else
    return false;
}

// Whether a pass is walked so: by one thread, with coefficients that the whole tensor shares.
template <class S, int Pass>
constexpr bool loops() {
  bool alone = S::variant.threads == 1 && !S::strided && !has_entry_coefficients<S, Pass>();
  static_for<S::slots>([&](auto s) {
    if (remembers<typename S::template Codec<decltype(s)::value>>()) alone = false;
  });
  return alone;
}

// ---- what is read --------------------------------------------------------------------------------

// The old values of slot I in one run.
template <class S, int I, class Part = typename S::template Codec<I>>
class OldValues {
 public:
  KHD OldValues(const Scope<S>& scope, int64 base, int count)
      : kept_(scope.tensor.slots[I], base, count), old_(scope) {}
  KHD real operator[](int i) const { return old_(kept_[i]); }

 private:
  DecodedRun<typename Part::Body> kept_;
  OldOrInitial<S, I> old_;
};
template <class S, int I>
class OldValues<S, I, Absent> {
 public:
  KHD OldValues(const Scope<S>& scope, int64, int) : initial_(scope.initial.of[I]) {}
  KHD real operator[](int) const { return initial_; }

 private:
  real initial_;
};

// The weights of one run, from what is kept beside them as well; before the first step that holds nothing.
template <class S, class Extra = typename S::Weights::Extra>
class OldWeights {
  using Bits = decltype(bits_of(real()));

 public:
  KHD OldWeights(const Scope<S>& scope, int64 base)
      : p_(static_cast<const typename S::P::Bits*>(scope.tensor.p) + base),
        extra_(static_cast<const Extra*>(scope.tensor.extra) + base),
        started_(step_number(scope.set) > 1 ? ~Bits{0} : Bits{0}) {}
  KHD real operator[](int i) const {
    const Bits kept = bits_of(S::Weights::load(p_[i], extra_[i]));
    return number_of((kept & started_) | (bits_of(S::Weights::first(p_[i])) & ~started_));
  }

 private:
  const typename S::P::Bits* p_;
  const Extra* extra_;
  Bits started_;
};
template <class S>
class OldWeights<S, NoExtra> {
 public:
  KHD OldWeights(const Scope<S>& scope, int64 base)
      : p_(static_cast<const typename S::P::Bits*>(scope.tensor.p) + base) {}
  KHD real operator[](int i) const { return S::Weights::load(p_[i]); }

 private:
  const typename S::P::Bits* p_;
};

template <class S>
struct SlotsOfRun {
  template <int I>
  using Old = OldValues<S, I>;
};

// f(i, element) for a run of elements from number base on, with the slots as they will be if all that they
// depend on is known.
template <class S, int Pass, class F>
KHD void for_run(const Scope<S>& scope, int64 base, int count, F&& f) {
  const OldWeights<S> p(scope, base);
  const auto* g = static_cast<const typename S::G::Bits*>(scope.step.g) + base;
  const Each<S::slots, SlotsOfRun<S>::template Old> was(scope, base, count);
  const auto gradient = scope.gradient;
  const auto rule = scope.rule;
  const int64 first = scope.tensor.offset + base;
  INDEPENDENT
  for (int i = 0; i < count; ++i) {
    Element<typename S::Slots> e;
    e.p = p[i];
    e.g = S::Gradient::Body::scale(static_cast<real>(S::G::load(g[i])), gradient);
    e.index = first + i;
    was.visit([&](auto s, const auto& old) { set_slot<S, decltype(s)::value>(e, old[i]); });
    advance<S, Pass>(e, gradient, rule);
    f(i, e, gradient, rule);
  }
}

// ---- what is written -----------------------------------------------------------------------------

// Encodes count values of slot I, from element base on, which share a Meta; there is room for a whole block of
// them. A part of one is filled up by its first value, which changes no key, so that no loop has a remainder.
template <class S, int I>
KHD void encode_run(const Scope<S>& scope, int64 base, int count, real* x) {
  using C = typename S::template Codec<I>::Body;
  constexpr int kCount = C::block > 1 ? C::block : kLeaf;
  const SlotBuffers& slot = scope.tensor.slots[I];
  for (int i = count; i < kCount; ++i) x[i] = x[0];
  Measured<C> meta{};
  if constexpr (C::block > 1) {
    meta = measure<C, kCount>(x);
    static_cast<typename C::Meta*>(slot.meta)[base / C::block] = meta;
  }
  const RandomRun<C::random ? kCount : 0> random(random_key(scope, I + 1),
                                                 scope.tensor.offset + base);
  const EncodedRun<C, kCount> encoded(x, meta);
  typename CodeStorage<typename C::Code>::Register code[kCount];
  INDEPENDENT
  for (int i = 0; i < kCount; ++i) code[i] = encoded.code(i, random[i]);
  StoredCodes<typename C::Code>::store(code, slot.codes, base, count);
}

// Writes element i of a run of weights, and what is kept beside it.
template <class S, class Extra>
KHD void store_weight(typename S::P::Bits* p, Extra* extra, int i, real x, uint32 random_bits) {
  if constexpr (kSame<Extra, NoExtra>) {
    p[i] = S::Weights::store(x, random_bits);
  } else {
    Extra beside{};
    p[i] = S::Weights::store(x, random_bits, beside);
    extra[i] = beside;
  }
}

// Whether a slot's codes are written as soon as an element is known.
template <class Part>
constexpr bool encodes_at_once() {
  if constexpr (kStored<Part>)
    return Part::Body::block == 1 && !Part::Body::random &&
           !kSame<typename Part::Body::Code, Nibble>;
  else
    return true;
}

// Where the codes of slots lie, in variables of a loop's own: what lies in memory any write of bytes may change.
template <class S>
struct CodesOfSlots {
  void* of[S::slots > 0 ? S::slots : 1];
  KHD explicit CodesOfSlots(const TensorRecord& tensor) {
    for (int i = 0; i < S::slots; ++i) of[i] = tensor.slots[i].codes;
  }
};

// Elements base to base + count - 1, a whole number of blocks but at the tensor's end.
template <class S, int Pass, int Most>
KHD void apply_loop(const Scope<S>& scope, int64 base, int count) {
  using W = typename S::Weights;
  const CodesOfSlots<S> codes(scope.tensor);
  real next[S::slots > 0 ? S::slots : 1][Most];
  for (int start = 0; start < count; start += kLeaf) {
    const int length = min(count - start, kLeaf);
    const int64 first = base + start;
    auto* p = static_cast<typename S::P::Bits*>(scope.tensor.p) + first;
    auto* extra = static_cast<typename W::Extra*>(scope.tensor.extra) + first;
    const auto* staged = static_cast<const real*>(scope.step.staged) + first;
    const RandomRun<W::random ? kLeaf : 0> random(random_key(scope, weights_stream<S>()),
                                                  scope.tensor.offset + first);
    for_run<S, Pass>(scope, first, length, [&](int i, auto& e, const auto&, const auto& rule) {
      if constexpr (S::staged) e.staged = staged[i];
      S::Rule::Body::apply(e, rule);
      store_weight<S>(p, extra, i, e.p, random[i]);
      static_for<S::slots>([&](auto s) {
        constexpr int I = decltype(s)::value;
        using Part = typename S::template Codec<I>;
        if constexpr (kStored<Part>) {
          const real x = flush_subnormal(S::template slot<I>(e).next);
          if constexpr (encodes_at_once<Part>())
            (static_cast<typename Part::Body::Code*>(codes.of[I]) + first)[i] =
                Part::Body::encode(x, {}, 0);
          else
            next[I][start + i] = x;
        }
      });
    });
  }
  static_for<S::slots>([&](auto s) {
    constexpr int I = decltype(s)::value;
    using Part = typename S::template Codec<I>;
    if constexpr (!encodes_at_once<Part>()) {
      constexpr int kBlock = Part::Body::block > 1 ? Part::Body::block : kLeaf;
      for (int start = 0; start < count; start += kBlock)
        encode_run<S, I>(scope, base + start, min(count - start, kBlock), next[I] + start);
    }
  });
}

}  // namespace jitstep
