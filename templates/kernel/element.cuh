// One element between its loads and stores: its previous values, and the rule's functions.
#pragma once
#include "../lang/philox.cuh"
#include "scope.cuh"

namespace jitstep {

// The key of a tensor's random bits in this step.
template <class S>
KHD RandomKey random_key(const Scope<S>& scope, uint32 stream) {
  return {scope.hyper_params.seed, static_cast<uint32>(scope.tensor.id),
          static_cast<uint32>(scope.t), stream};
}

// The random stream of the weights: 0, unless the rule declares another.
template <class S>
constexpr uint32 weights_stream() {
  if constexpr (requires { S::Rule::Body::weights_stream; })
    return S::Rule::Body::weights_stream;
  else
    return 0;
}

// The value of slot I before the step: decoded from its code, or the initial value before the first step. It selects
// by bits, because compilers would branch on a condition.
template <class S, int I>
class PreviousValue {
  using Bits = decltype(bits_of(real()));

 public:
  KHD explicit PreviousValue(const Scope<S>& scope)
      : started_(scope.t > 1 ? ~Bits{0} : Bits{0}),
        initial_(bits_of(scope.initial.of[I]) & ~started_) {}
  KHD real operator()(real stored) const {
    return number_of((bits_of(stored) & started_) | initial_);
  }

 private:
  Bits started_, initial_;
};

// Sets the previous value of slot I of an element.
template <class S, int I>
KHD void set_slot(ElementOf<S>& e, real prev) {
  auto& slot = S::template slot<I>(e);
  slot.prev = prev;
#if defined(JITSTEP_CHECK)
  slot.next = static_cast<real>(kNaN);  // `update_state` must set it
  if (!kStored<typename S::template Codec<I>>) slot.prev = slot.next;
#endif
}

// Which inputs a step has, as local variables. Compilers assume that a write of bytes may change a record in memory.
template <class S>
struct GivenInputs {
  bool of[S::inputs > 0 ? S::inputs : 1];
  KHD explicit GivenInputs(const StepRecord& step) {
    for (int i = 0; i < S::inputs; ++i) of[i] = step.inputs[i] != nullptr;
  }
};

// Sets the inputs of an element. value(i): that of input i, or 0 if it is not given.
template <class S, class F>
KHD void set_inputs(const GivenInputs<S>& given, ElementOf<S>& e, F&& value) {
  static_for<S::inputs>([&](auto i) {
    constexpr int I = decltype(i)::value;
    e.*At<I, typename S::InputFields>::type::pointer = {value(i), given.of[I]};
  });
}

// A separate template, because in a lambda NVRTC treats an unsatisfied requirement as an error.
template <class Rule>
KHD void compute_state(auto& e, const auto& c) {
  if constexpr (requires { Rule::update_state(e, c); }) Rule::update_state(e, c);
}
template <class Rule>
KHD void compute_state_after(auto& e, const auto& c) {
  if constexpr (requires { Rule::update_state_after(e, c); }) Rule::update_state_after(e, c);
}

// Computes the rule's gradient and the new slots, if this pass has all values that they depend on. Known: the results
// of so many host transforms are set.
template <class S, int Pass, int Known>
KHD void advance(auto& e, const auto& gradient, const auto& rule) {
  if constexpr (gradient_ready<S, Pass>()) {
    e.g = S::Gradient::Body::transform(e.g, gradient);
    compute_state<typename S::Rule::Body>(e, rule);
    if constexpr (S::state_section > 0 && Known >= S::state_section)
      compute_state_after<typename S::Rule::Body>(e, rule);
  }
}

// Replaces the new value of slot I by the value that the codec stores.
template <class S, int I>
KHD void set_stored(auto& e, const auto& aux) {
  S::template slot<I>(e).next = S::template Codec<I>::Body::decode({}, {}, aux);
}

}  // namespace jitstep
