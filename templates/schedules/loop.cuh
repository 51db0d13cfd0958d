// One thread's loop over a range of dense elements, from memory to memory. The compiler vectorizes it. Block metadata,
// and values that differ by entry of a domain, are handled before and after the loop. So elements are
// buffered in an array only until their block's scale is known.
#pragma once
#include "entry_runs.cuh"

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

// ---- loads ---------------------------------------------------------------------------------------

// The decoded values of slot I in one range.
template <class S, int I, bool Remembers>
class KeptValues {
 public:
  KHD KeptValues(const Scope<S>& scope, const Run& run)
      : values_(scope.tensor.slots[I], run.base, run.count) {}
  KHD real operator[](int i) const { return values_[i]; }

 private:
  DecodedRun<typename S::template Codec<I>::Body> values_;
};
template <class S, int I>
class KeptValues<S, I, true> {
  using C = typename S::template Codec<I>::Body;
  static constexpr int kBlock = C::block > 1 && C::block < kLeaf ? C::block : kLeaf;

 public:
  KHD KeptValues(const Scope<S>& scope, const Run& run) {
    const SlotBuffers& slot = scope.tensor.slots[I];
    const CodesOfRun<typename C::Code> codes(slot.codes, run.base, run.count);
    const MemoryOfRun<S, I, kLeaf, false> memory(scope, run);
    for (int start = 0; start < run.count; start += kBlock) {
      typename C::Meta meta{};
      if constexpr (C::block > 1)
        meta = static_cast<const typename C::Meta*>(slot.meta)[(run.base + start) / C::block];
      // vectorized: the loop that decodes
      INDEPENDENT
      for (int i = max(start, run.begin); i < min(start + kBlock, run.end); ++i)
        values_[i] = C::decode(codes.begin()[i], meta, memory[i]);
    }
  }
  KHD real operator[](int i) const { return values_[i]; }

 private:
  real values_[kLeaf];
};

// Normalized values are decoded by the inner codec.
template <class S, int I>
requires HasUnits<typename S::template Codec<I>::Body>
class KeptValues<S, I, true> {
  using C = typename S::template Codec<I>::Body;

 public:
  KHD KeptValues(const Scope<S>& scope, const Run& run)
      : coded_(scope.tensor.slots[I].codes, run.base, run.count), memory_(scope, run) {}
  KHD real operator[](int i) const { return C::from_units(coded_.value(i, {}), memory_[i]); }

 private:
  CodedRun<typename C::InUnits> coded_;
  MemoryOfRun<S, I, kLeaf, false> memory_;
};

// Without codes, only auxiliary state is read, and only for elements that are used.
template <class S, int I>
requires(!kCoded<typename S::template Codec<I>>) class KeptValues<S, I, true> {
 public:
  KHD KeptValues(const Scope<S>& scope, const Run& run) : memory_(scope, run) {}
  KHD real operator[](int i) const {
    return S::template Codec<I>::Body::decode({}, {}, memory_[i]);
  }

 private:
  MemoryOfRun<S, I, kLeaf, false> memory_;
};

// The previous values of slot I in one range.
template <class S, int I, class Part = typename S::template Codec<I>>
class OldValues {
 public:
  KHD OldValues(const Scope<S>& scope, const Run& run) : kept_(scope, run), old_(scope) {}
  KHD real operator[](int i) const { return old_(kept_[i]); }

 private:
  KeptValues<S, I, Part::remembers> kept_;
  OldOrInitial<S, I> old_;
};
template <class S, int I>
class OldValues<S, I, Absent> {
 public:
  KHD OldValues(const Scope<S>& scope, const Run&) : initial_(scope.initial.of[I]) {}
  KHD real operator[](int) const { return initial_; }

 private:
  real initial_;
};

// The weights of one range, with their residuals, once a step has set these.
template <class S, class Extra = typename S::Weights::Extra>
class OldWeights {
  using Bits = decltype(bits_of(real()));

 public:
  KHD OldWeights(const Scope<S>& scope, int64 base)
      : p_(static_cast<const typename S::P::Bits*>(scope.tensor.p) + base),
        extra_(static_cast<const Extra*>(scope.tensor.extra) + base),
        held_(holds_extra(scope) ? ~Bits{0} : Bits{0}) {}
  KHD real operator[](int i) const {
    const Bits kept = bits_of(S::Weights::load(p_[i], extra_[i]));
    return number_of((kept & held_) | (bits_of(S::Weights::first(p_[i])) & ~held_));
  }

 private:
  const typename S::P::Bits* p_;
  const Extra* extra_;
  Bits held_;
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

// A slot's previous values, with the slot's number.
template <int I, class Values>
struct Numbered {
  const Values& values;
};

// Calls f with Numbered values of each slot. Each slot's decoder is a separate local variable, so that compilers drop
// decodes that this pass does not read. They do not drop members of one object.
template <class S, int I = 0, class F, class... Before>
KHD void with_old_values(const Scope<S>& scope, const Run& run, F&& f, const Before&... before) {
  if constexpr (I == S::slots) {
    f(before...);
  } else {
    const OldValues<S, I> values(scope, run);
    with_old_values<S, I + 1>(scope, run, f, before..., Numbered<I, OldValues<S, I>>{values});
  }
}

template <class S, int I, class Values>
KHD void set_numbered(Element<typename S::Slots>& e, const Numbered<I, Values>& slot, int i) {
  set_slot<S, I>(e, slot.values[i]);
}

// The new values of slot I, which has no codes, for a range's elements, if they are Known.
template <class S, int I, bool Known>
class KeptOfRun {
 public:
  KHD KeptOfRun(const Scope<S>& scope, const Run& run) : memory_(scope, run) {}
  KHD void put(int i, auto& e) const { set_kept<S, I>(e, memory_[i]); }

 private:
  MemoryOfRun<S, I, kLeaf, true> memory_;
};
template <class S, int I>
struct KeptOfRun<S, I, false> {
  KHD KeptOfRun(const Scope<S>&, const Run&) {}
  KHD void put(int, auto&) const {}
};

// A template with the slot number as its parameter, as Each (core/list.cuh) requires.
template <class S, int Pass>
struct KeptSlotsOfRun {
  template <int I>
  using Of = KeptOfRun<S, I, knows_what_is_kept<S, I, Pass>()>;
};
template <class S, int Pass>
using KeptSlots = Each<S::slots, KeptSlotsOfRun<S, Pass>::template Of>;

// Calls f(i, element, gradient context, rule context) for the elements of a range. New slots are computed if all
// that they depend on is known.
template <class S, int Pass, class F>
KHD void for_run(const Scope<S>& scope, const Run& run, F&& f) {
  const OldWeights<S> p(scope, run.base);
  const auto* g = static_cast<const typename S::G::Bits*>(scope.step.g) + run.base;
  const EntryCoefficients<S, Pass> entries(scope, run);
  const KeptSlots<S, Pass> kept(scope, run);
  const auto gradient = scope.gradient;
  const auto rule = scope.rule;
  const int64 first = scope.tensor.offset + run.base;
  with_old_values<S>(scope, run, [&](const auto&... slots) {
    // vectorized: the loop over elements
    INDEPENDENT
    for (int i = run.begin; i < run.end; ++i) {
      Element<typename S::Slots> e;
      e.p = p[i];
      e.g = S::Gradient::Body::scale(static_cast<real>(S::G::load(g[i])), gradient);
      e.index = first + i;
      (set_numbered<S>(e, slots, i), ...);
      auto own_gradient = gradient;
      auto own_rule = rule;
      entries.visit([&](auto, const auto& of) { of.put(i, own_gradient, own_rule); });
      advance<S, Pass>(e, own_gradient, own_rule);
      kept.visit([&](auto, const auto& of) { of.put(i, e); });
      f(i, e, own_gradient, own_rule);
    }
  });
}

// ---- stores --------------------------------------------------------------------------------------

// The codes of Count values that share a Meta, with the codec's auxiliary state if there is any.
// Values may be overwritten.
template <class S, int I, int Count, bool Remembers>
struct EncodedBy : EncodedRun<typename S::template Codec<I>::Body, Count> {
  using C = typename S::template Codec<I>::Body;
  KHD EncodedBy(const Scope<S>&, const Run&, const real* x, const Measured<C>& meta)
      : EncodedRun<C, Count>(x, meta) {}
};
template <class S, int I, int Count>
class EncodedBy<S, I, Count, true> {
  using C = typename S::template Codec<I>::Body;

 public:
  KHD EncodedBy(const Scope<S>& scope, const Run& run, const real* x, const Measured<C>& meta)
      : x_(x), meta_(meta), memory_(scope, run) {}
  KHD auto code(int i, uint32 random_bits) const {
    return C::encode(x_[i], meta_, random_bits, memory_[i]);
  }

 private:
  const real* x_;
  Measured<C> meta_;
  MemoryOfRun<S, I, Count, true> memory_;
};
template <class S, int I, int Count>
requires HasUnits<typename S::template Codec<I>::Body>
struct EncodedBy<S, I, Count, true>
    : EncodedRun<typename S::template Codec<I>::Body::InUnits, Count> {
  using C = typename S::template Codec<I>::Body;
  KHD EncodedBy(const Scope<S>& scope, const Run& run, real* x, const NoMeta& none)
      : EncodedRun<typename C::InUnits, Count>(in_units(scope, run, x), none) {}

 private:
  KHD static const real* in_units(const Scope<S>& scope, const Run& run, real* x) {
    const MemoryOfRun<S, I, Count, true> memory(scope, run);
    // vectorized: the loop that encodes
    INDEPENDENT
    for (int i = 0; i < Count; ++i) x[i] = C::in_units(x[i], memory[i]);
    return x;
  }
};

// Encodes count values of slot I from element base, which share a Meta. x has room for a whole block. A partial
// block is filled with its first value, which changes no key, so that no loop has a remainder.
template <class S, int I>
KHD void encode_run(const Scope<S>& scope, int64 base, int count, real* x) {
  using Part = typename S::template Codec<I>;
  using C = typename Part::Body;
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
  const EncodedBy<S, I, kCount, Part::remembers> encoded(scope, whole_run(base, count), x, meta);
  typename CodeStorage<typename C::Code>::Register code[kCount];
  // vectorized: the loop that encodes
  INDEPENDENT
  for (int i = 0; i < kCount; ++i) code[i] = encoded.code(i, random[i]);
  StoredCodes<typename C::Code>::store(code, slot.codes, base, count);
}

// Writes element i of a range of weights, and its residual.
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

// Whether a slot's code is written in the loop over elements.
template <class Part>
constexpr bool encodes_at_once() {
  if constexpr (kCoded<Part>)
    return Part::Body::block == 1 && !Part::Body::random && !Part::remembers &&
           !kSame<typename Part::Body::Code, Nibble>;
  else
    return true;
}

// Pointers to the codes of slots, as local variables. Compilers assume that a write of bytes may change those in memory.
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
    auto* extra = static_cast<typename W::Extra*>(scope.tensor.extra) + first;
    const auto* staged = static_cast<const real*>(scope.step.staged) + first;
    const RandomRun<W::random ? kLeaf : 0> random(random_key(scope, weights_stream<S>()),
                                                  scope.tensor.offset + first);
    const Run run = whole_run(first, length);
    for_run<S, Pass>(scope, run, [&](int i, auto& e, const auto&, const auto& rule) {
      if constexpr (S::staged) e.staged = staged[i];
      S::Rule::Body::apply(e, rule);
      store_weight<S>(p, extra, i, e.p, random[i]);
      static_for<S::slots>([&](auto s) {
        constexpr int I = decltype(s)::value;
        using Part = typename S::template Codec<I>;
        if constexpr (kCoded<Part>) {
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
