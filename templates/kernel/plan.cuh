// The types that describe a kernel: components, reductions, auxiliary state. They use the interface of rules and
// codecs, and are independent of formulas, formats and threads.
#pragma once
#include "../lang/list.cuh"
#include "args.cuh"
#include "reduction_ops.cuh"

namespace jitstep {

// A rule, a codec or the gradient options, with the structures that the file declares. For a codec with numbers,
// `Numbers::of` computes them from the rule's.
template <class Body_, class Hyper_ = NoHyper, class Reductions_ = NoReductions,
          class AuxState_ = NoAuxState, class Numbers_ = void>
struct Component {
  using Body = Body_;
  using Hyper = Hyper_;
  using Reductions = Reductions_;
  using AuxState = AuxState_;
  using Numbers = Numbers_;
  static constexpr bool has_aux_state = !kSame<AuxState, NoAuxState>;
};

// A slot that flags leave out.
struct Absent {};
template <class Component>
inline constexpr bool kStored = true;
template <>
inline constexpr bool kStored<Absent> = false;

// Whether a slot has codes. The last launch of a step writes them.
template <class Component>
inline constexpr bool kCoded = !kSame<typename Component::Body::Code, NoCode>;
template <>
inline constexpr bool kCoded<Absent> = false;

// ---- optional functions of a body --------------------------------------------------------------

template <class P>
KHD auto prepare(const typename P::Hyper& h, int64 t, const Sizes& size, typename P::AuxState& m) {
  if constexpr (requires { P::Body::prepare(h, t, size, m); })
    return P::Body::prepare(h, t, size, m);
  else if constexpr (requires { P::Body::prepare(h, t, size); })
    return P::Body::prepare(h, t, size);
  else if constexpr (requires { P::Body::prepare(h, t, m); })
    return P::Body::prepare(h, t, m);
  else if constexpr (requires { P::Body::prepare(h, t); })
    return P::Body::prepare(h, t);
  else
    return NoScalars{};
}
template <class P>
using ScalarsOf = decltype(prepare<P>(declare<typename P::Hyper>(), 1, declare<const Sizes>(),
                                      declare<typename P::AuxState>()));

// Whether `prepare` reads the sizes of the tensor, or its auxiliary state.
template <class Body, class Hyper, class AuxState>
concept PreparesFromSizes = requires(const Hyper& h, const Sizes& size) {
  Body::prepare(h, 1, size);
}
|| requires(const Hyper& h, const Sizes& size, AuxState& m) { Body::prepare(h, 1, size, m); };
template <class Body, class Hyper, class AuxState>
concept PreparesFromAuxState = requires(const Hyper& h, AuxState& m) {
  Body::prepare(h, 1, m);
}
|| requires(const Hyper& h, const Sizes& size, AuxState& m) { Body::prepare(h, 1, size, m); };

// Whether a codec's codes index a codebook.
template <class C>
concept HasCodebook = requires {
  typename C::Codebook;
};

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

// The context `c` of a component's functions: its scalars, and the results of earlier reductions.
template <class P>
struct Context : ScalarsOf<P>, P::Reductions {};

// ---- the host's plan: a row per active reduction and per field of auxiliary state -----------------

// Numbers of components: gradient options, rule, then the codec of each slot.
inline constexpr int kGradientComponent = 0, kRuleComponent = 1, kFirstCodecComponent = 2;

struct Resolved {
  int component;
  int number;            // among active reductions
  int pass;              // pass of the reduction
  int reduction_layout;  // reduction layout of its terms
  int source = -1;       // number of the reduction whose entries it reduces; -1: elements
};

template <class Component_, Resolved Row, auto Pointer>
struct Reduction : FieldRef<Pointer> {
  using Component = Component_;
  using Type = typename FieldRef<Pointer>::Type;
  using Domain = typename Type::Domain;
  using Coefficients = typename Type::Coefficients;
  using Op = typename At<Type::is_sum ? 0 : 1, List<SumOp, MaxOp>>::type;
  static constexpr int component = Row.component, number = Row.number, pass = Row.pass,
                       reduction_layout = Row.reduction_layout;
  static constexpr int source = Row.source, terms = Type::terms;
  static constexpr bool is_global = kSame<Domain, all>;
  static constexpr bool has_source = source >= 0;
  static constexpr bool uniform = Domain::reduction_layout == 0;  // one result per tensor
};

// The number of steps without skipped ones, of a tensor and of the optimizer.
KHD int64 step_number(const HyperParams& hyper_params) {
  return hyper_params.step_offset == nullptr ? hyper_params.t
                                             : hyper_params.t - *hyper_params.step_offset;
}
KHD int64 global_step_number(const HyperParams& hyper_params) {
  return hyper_params.shared_step_offset == nullptr
             ? hyper_params.global_step
             : hyper_params.global_step - *hyper_params.shared_step_offset;
}

// OfElements: elements read their entry's value.
template <int ComponentNumber, int Number, auto Pointer, bool OfElements = false>
struct AuxField : FieldRef<Pointer> {
  using Domain = typename FieldRef<Pointer>::Type::Domain;
  using Value = typename FieldRef<Pointer>::Type::Value;
  static constexpr int component = ComponentNumber, number = Number;
  static constexpr bool of_elements = OfElements;
  // Each step of the tensor swaps the two buffers. For domain `all`, each step of the optimizer does.
  KHD static Value* next(const TensorRecord& t, const HyperParams& hyper_params) {
    return static_cast<Value*>(t.aux[number][parity(hyper_params) & 1]);
  }
  KHD static Value* prev(const TensorRecord& t, const HyperParams& hyper_params) {
    return static_cast<Value*>(t.aux[number][(parity(hyper_params) + 1) & 1]);
  }

 private:
  KHD static int64 parity(const HyperParams& hyper_params) {
    return kSame<Domain, all> ? global_step_number(hyper_params) : step_number(hyper_params);
  }
};

// ---- the specification of a step ---------------------------------------------------------------

// How kernels visit elements (tile/traversal.cuh, loop/traversal.cuh).
struct TileTraversal;
struct LoopTraversal;

// What the parts of a step are if a translation unit does not name them.
struct DefaultParts {
  using Slots = NoSlots;
  using SlotFields = List<>;  // a FieldRef of Slots for each codec
  using Codecs = List<>;      // a Component, or Absent, for each slot
  using Reductions = List<>;  // the active ones
  using AuxFields = List<>;
  using Inputs = NoInputs;
  using InputFields = List<>;  // a FieldRef of Inputs for each input
  // For each host transform its number and the number of passes before it, its input of an element, and its result in
  // an element.
  using Transforms = List<>;
  using OfTransforms = NoTransforms;  // the struct with the transforms' results
  static constexpr int state_section = 0;  // transforms before `update_state_after`; 0: it is unused
  static constexpr bool strided = false;   // some p or g is not dense, and needs its strides
};

// The parts of a translation unit: a struct derived from DefaultParts. It must name the components Gradient and Rule,
// Weights, the gradient's dtype G, the KernelConfig `config` and the Traversal.
template <class Parts>
struct Spec : Parts {
  using P = typename Parts::Weights::Format;
  static constexpr int slots = Parts::Codecs::size;
  static constexpr int inputs = Parts::InputFields::size;
  static constexpr int transforms = Parts::Transforms::size;
  template <int I>
  using Codec = typename At<I, typename Parts::Codecs>::type;
  template <int I>
  KHD static auto& slot(auto& e) {
    return e.*At<I, typename Parts::SlotFields>::type::pointer;
  }
};

// The number of host transforms whose results the sums of a pass know: the first ones. The launch that computes a
// transform's input has the number of the first pass after it, but knows only the transforms before it.
template <class S, int Pass>
constexpr int known_transforms() {
  int known = 0;
  for_list(typename S::Transforms{}, [&](auto t) { known += decltype(t)::pass <= Pass; });
  return known;
}

// Calls f(transform) for the first Known host transforms.
template <class S, int Known, class F>
KHD constexpr void for_known_transforms(F&& f) {
  static_for<Known>(
      [&](auto k) { f(typename At<decltype(k)::value, typename S::Transforms>::type{}); });
}

// Whether elements read auxiliary state of their own entries.
template <class S>
constexpr bool elements_read_state() {
  bool reads = false;
  for_list(typename S::AuxFields{}, [&](auto row) { reads = reads || decltype(row)::of_elements; });
  return reads;
}

// The element that a rule's functions see.
template <class S, bool ReadsState>
struct ElementType {
  using type = Element<typename S::Slots, NoAuxState, typename S::Inputs, typename S::OfTransforms>;
};
template <class S>
struct ElementType<S, true> {
  using type = Element<typename S::Slots, typename S::Rule::AuxState, typename S::Inputs,
                       typename S::OfTransforms>;
};
template <class S>
using ElementOf = typename ElementType<S, elements_read_state<S>()>::type;

// Calls f(Reduction) for every active reduction.
template <class S, class F>
KHD constexpr void for_reductions(F&& f) {
  for_list(typename S::Reductions{}, f);
}

// Whether the rule has auxiliary state of a domain.
template <class S, class Domain>
constexpr bool rule_has_aux_state() {
  bool keeps = false;
  for_list(typename S::AuxFields{}, [&](auto row) {
    using Field = decltype(row);
    if constexpr (Field::component == kRuleComponent && kSame<typename Field::Domain, Domain>)
      keeps = true;
  });
  return keeps;
}

// Whether the `finalize` of a reduction takes auxiliary state.
template <class R>
constexpr bool finalize_has_aux_state() {
  using Component = typename R::Component;
  if constexpr (Component::has_aux_state && R::component == kRuleComponent)
    return requires(Context<Component> & c, typename Component::AuxState & m) {
      Component::Body::finalize(Of<typename R::Coefficients>{}, Totals<R::terms>{}, 1, c, m);
    };
  else
    return Component::has_aux_state;
}

// Whether a `finalize` of the rule's active reductions writes auxiliary state of a domain.
template <class S, class Domain>
constexpr bool rule_finalizes() {
  bool finishes = false;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::component == kRuleComponent && kSame<typename R::Domain, Domain>)
      finishes = finishes || finalize_has_aux_state<R>();
  });
  return finishes;
}

// The domains in the order of their layouts' numbers.
using Domains = List<tensor, first, rows, columns, matrices, axis<0>, axis<1>, axis<2>, axis<3>>;

// The dimensions inside an entry of a domain's layout, as bits.
template <int LayoutNumber>
KHD uint32 reduced_in(int dims) {
  using Domain = typename At<LayoutNumber, Domains>::type;
  static_assert(Domain::reduction_layout == LayoutNumber);
  return Domain::reduced(dims);
}

// The reductions of one pass in one layout.
template <class S, int Pass, int ReductionLayout>
struct PassReductions {
  template <class R>
  static constexpr bool takes = R::pass == Pass&& R::reduction_layout == ReductionLayout;
  static constexpr int terms() {
    int n = 0;
    for_reductions<S>([&](auto r) {
      if constexpr (takes<decltype(r)>) n += decltype(r)::terms;
    });
    return n;
  }
  template <class R>
  static constexpr int first_term() {
    int n = 0;
    for_reductions<S>([&](auto r) {
      using Q = decltype(r);
      if constexpr (takes<Q> && Q::number < R::number) n += Q::terms;
    });
    return n;
  }
};

// Whether the gradient options have all their sums before a pass, so that g and new slots can be computed.
template <class S, int Pass>
constexpr bool gradient_ready() {
  bool ready = true;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::component == kGradientComponent && R::pass >= Pass) ready = false;
  });
  return ready;
}

// Whether the new values of a slot without codes are known before a pass: after its codec's reductions.
template <class S, int I, int Pass>
constexpr bool knows_what_is_stored() {
  using Component = typename S::template Codec<I>;
  bool known = kStored<Component> && !kCoded<Component>;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::component == kFirstCodecComponent + I && R::pass >= Pass) known = false;
  });
  return known;
}

}  // namespace jitstep
