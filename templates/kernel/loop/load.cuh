// One thread's loop over a range of dense elements, from memory to memory. The compiler vectorizes it. Code before the
// loop reads block metadata, and values that differ by entry of a domain.
#pragma once
#include "../element.cuh"
#include "encoded_range.cuh"
#include "entry_ranges.cuh"
#include "strip.cuh"

namespace jitstep {

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

// The same, with metadata per block.
template <class S, int I>
requires NormalizesByBlock<typename S::template Codec<I>::Body>
class StoredState<S, I, true> {
  using C = typename S::template Codec<I>::Body;
  static constexpr int kBlock = C::block < kLeaf ? C::block : kLeaf;

 public:
  KHD StoredState(const Scope<S>& scope, const ElementRange& elements) {
    const SlotBuffers& slot = scope.tensor.slots[I];
    const EncodedRange<typename C::ScaledCodec> coded(slot.codes, elements.base, elements.count);
    const AuxStateOfRange<S, I, kLeaf, false> aux(scope, elements);
    for (int start = 0; start < elements.count; start += kBlock) {
      const auto meta =
          static_cast<const typename C::Meta*>(slot.meta)[(elements.base + start) / C::block];
      // vectorized: the loop that decodes
      INDEPENDENT
      for (int i = max(start, elements.begin); i < min(start + kBlock, elements.end); ++i)
        values_[i] = C::denormalize(coded.value(i, {}), meta, aux[i]);
    }
  }
  KHD real operator[](int i) const { return values_[i]; }

 private:
  real values_[kLeaf];
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
  KHD PreviousWeights(const Scope<S>& scope, const ElementRange& elements)
      : p_(static_cast<const typename S::P::Bits*>(scope.tensor.p) + elements.base),
        residual_(static_cast<const Residual*>(scope.tensor.residual) + elements.base),
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
  KHD PreviousWeights(const Scope<S>& scope, const ElementRange& elements)
      : p_(static_cast<const typename S::P::Bits*>(scope.tensor.p) + elements.base) {}
  KHD real operator[](int i) const { return S::Weights::load(p_[i]); }

 private:
  const typename S::P::Bits* p_;
};
template <class S>
requires(rounds_to_nearest<typename S::Weights>()) class PreviousWeights<S, NoResidual> {
 public:
  KHD PreviousWeights(const Scope<S>& scope, const ElementRange& elements)
      : p_(scope.tensor.p, elements.base, elements.count) {}
  KHD real operator[](int i) const { return p_[i]; }

 private:
  WidenedRange<typename S::P> p_;
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
KHD void set_numbered(ElementOf<S>& e, const Numbered<I, Values>& slot, int i) {
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

// A template with the slot number as its parameter, as Each (lang/list.cuh) requires.
template <class S, int Pass>
struct StoredSlotsOfRange {
  template <int I>
  using Of = StoredOfRange<S, I, knows_what_is_stored<S, I, Pass>()>;
};
template <class S, int Pass>
using StoredSlots = Each<S::slots, StoredSlotsOfRange<S, Pass>::template Of>;

// Input I of a range, or zeros if it is not given.
template <class S, int I>
class InputOfRange {
 public:
  KHD InputOfRange(const Scope<S>& scope, const ElementRange& elements) {
    if (scope.step.inputs[I] != nullptr)
      values_ = static_cast<const real*>(scope.step.inputs[I]) + elements.base;
    else
      for (real& x : zeros_) x = 0;
  }
  InputOfRange(const InputOfRange&) = delete;
  KHD real operator[](int i) const { return values_[i]; }

 private:
  real zeros_[kLeaf];
  const real* values_ = zeros_;
};

// The inputs of a range.
template <class S, int Count = S::inputs>
class InputsOfRange : InputsOfRange<S, Count - 1> {
  using Before = InputsOfRange<S, Count - 1>;

 public:
  KHD InputsOfRange(const Scope<S>& scope, const ElementRange& elements)
      : Before(scope, elements), last_(scope, elements) {}
  template <int I>
  KHD real value(int i) const {
    if constexpr (I == Count - 1)
      return last_[i];
    else
      return Before::template value<I>(i);
  }

 private:
  InputOfRange<S, Count - 1> last_;
};
template <class S>
struct InputsOfRange<S, 0> {
  KHD InputsOfRange(const Scope<S>&, const ElementRange&) {}
};

// The results of the first Known host transforms for the elements of a range.
template <class S, int Known>
class TransformedOfRange : TransformedOfRange<S, Known - 1> {
 public:
  KHD TransformedOfRange(const Scope<S>& scope, const ElementRange& elements)
      : TransformedOfRange<S, Known - 1>(scope, elements),
        values_(static_cast<const real*>(scope.step.transformed[Known - 1]) + elements.base) {}
  KHD void put(int i, auto& e) const {
    TransformedOfRange<S, Known - 1>::put(i, e);
    At<Known - 1, typename S::Transforms>::type::of(e) = values_[i];
  }

 private:
  const real* values_;
};
template <class S>
struct TransformedOfRange<S, 0> {
  KHD TransformedOfRange(const Scope<S>&, const ElementRange&) {}
  KHD void put(int, auto&) const {}
};

// Calls f(visit). visit(i, g) calls g(element, gradient context, rule context) for element i of a range. It computes
// new slots if this pass has all values that they depend on.
template <class S, int Pass, class F>
KHD void with_elements(const Scope<S>& scope, const ElementRange& elements, F&& f) {
  const PreviousWeights<S> p(scope, elements);
  const WidenedRange<typename S::G> g(scope.step.g, elements.base, elements.count);
  const EntryCoefficients<S, Pass> entries(scope, elements);
  const StoredSlots<S, Pass> stored(scope, elements);
  const OwnState<S> own(scope, elements);
  const InputsOfRange<S> inputs(scope, elements);
  const GivenInputs<S> given(scope.step);
  constexpr int kKnown = known_transforms<S, Pass>();
  const TransformedOfRange<S, kKnown> transformed(scope, elements);
  const auto gradient = scope.gradient;
  const auto rule = scope.rule;
  const int64 first = scope.tensor.offset + elements.base;
  const RandomKey key = random_key(scope, 0);
  with_prev_values<S>(scope, elements, [&](const auto&... slots) INLINED {
    f([&](int i, auto&& visit) INLINED {
      ElementOf<S> e;
      e.p = p[i];
      e.g = S::Gradient::Body::scale(g[i], gradient);
      e.index = first + i;
      e.random_key = key;
      (set_numbered<S>(e, slots, i), ...);
      own.visit([&](auto, const auto& of) { of.put(i, e); });
      if constexpr (S::inputs > 0)
        set_inputs<S>(given, e,
                      [&](auto n) { return inputs.template value<decltype(n)::value>(i); });
      auto element_gradient = gradient;
      auto element_rule = rule;
      entries.visit([&](auto, const auto& of) { of.put(i, element_gradient, element_rule); });
      transformed.put(i, e);
      advance<S, Pass, kKnown>(e, element_gradient, element_rule);
      stored.visit([&](auto, const auto& of) { of.put(i, e); });
      visit(e, element_gradient, element_rule);
    });
  });
}

// Calls f(i, element, gradient context, rule context) for elements `begin` to elements.end - 1 of a range.
KHD void for_each_element(const ElementRange& elements, int begin, const auto& with_element,
                          auto&& f) {
  // vectorized: the loop over elements
  INDEPENDENT
  for (int i = begin; i < elements.end; ++i)
    with_element(i, [&](auto& e, const auto& gradient, const auto& rule)
                        INLINED { f(i, e, gradient, rule); });
}

// The same, for all elements of a range.
template <class S, int Pass, class F>
KHD void for_range(const Scope<S>& scope, const ElementRange& elements, F&& f) {
  with_elements<S, Pass>(scope, elements, [&](const auto& with_element) INLINED {
    for_each_element(elements, elements.begin, with_element, f);
  });
}

}  // namespace jitstep
