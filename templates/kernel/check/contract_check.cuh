// Checks at compile time that a rule follows docs/extending/reference.md. It instantiates each function of a rule with
// views that contain only what the function may read and write. Nothing of this runs or stays in the binary. Only the
// host knows the fields' names, so it generates SlotsOf, ResultsIn and the assertions. (No back quotes in assertions:
// NVRTC prints them as question marks.)
#pragma once
#include "../plan.cuh"
#include "../tile/fragment.cuh"
#include "codec_check.cuh"

namespace jitstep {

struct PreviousSlot {  // before `update_state`, or `update_state_after`
  const real prev;
};
struct OpenSlot {  // in that function
  const real prev;
  real next;
};
struct NewSlot {  // after it
  const real prev, next;
};

struct LaterResult {};  // result of a reduction that is not available yet
template <class Result, bool Known>
struct ResultIf {
  using type = Result;
};
template <class Result>
struct ResultIf<Result, false> {
  using type = LaterResult;
};

// Whether a function that runs in pass `now` may read a reduction of pass `pass` (-1: inactive). section: the number of
// host transforms before the reduction; of_state: before `update_state_after`.
inline constexpr int kInUpdateState = -1, kInUpdateStateAfter = -2, kInUpdateParam = 1 << 20;
constexpr bool may_read(int now, int pass, bool marked_update_state, int section, int of_state) {
  if (pass < 0) return true;
  if (now == kInUpdateState) return marked_update_state && section == 0;
  if (now == kInUpdateStateAfter)
    return section < of_state || (marked_update_state && section == of_state);
  return pass < now;
}

// When new slots are known, and whether the rule has some that `update_state` sets, or `update_state_after`.
struct SlotTiming {
  int known;  // first pass after the reductions that `update_state` reads
  int known_after;
  bool any, any_after;
};

// A field of auxiliary state that elements read, of their own entry.
template <class Value>
struct OwnEntry {
  const Value prev;
};

// OfElement: the inputs of a step, and auxiliary state of the element's own entries.
template <class Slots, class OfElement, class P>
struct ElementView : Slots, OfElement {
  P p;
  const real g;
  const int64 index;
  KHD uint32 random(int) const { return 0; }
  ElementView(const ElementView&) = delete;  // a write to a copy would be lost
  void operator&() const = delete;           // a rule sees one element only
};
template <class View, class Transformed>
struct TransformedView : View, Transformed {};  // after host transforms
template <class Scalars, class Results>
struct ContextView : Scalars, Results {};

// The view of `eval` and `train`.
struct SlotBetweenSteps {
  const real prev;
};
template <class Slots>
struct ElementBetweenSteps : Slots {
  real p;
  const int64 index;
  ElementBetweenSteps(const ElementBetweenSteps&) = delete;
  void operator&() const = delete;
};
template <class Scalars>
struct ScalarsBetweenSteps : Scalars {};

template <class B>
concept NamesPrepare = requires {
  &B::prepare;
};
template <class B, class H, class M>
concept HasPrepare = PreparesFromAuxState<B, H, M> || PreparesFromSizes<B, H, M> ||
    requires(const H& h) {
  B::prepare(h, 1);
};
// A write to a copy of the auxiliary state would be lost, too.
template <class B, class Scalars, class H, class M>
concept PreparesACopy = requires {
  static_cast<Scalars (*)(const H&, int64, M)>(&B::prepare);
}
|| requires { static_cast<Scalars (*)(const H&, int64, const Sizes&, M)>(&B::prepare); };
template <class B, class R, class C, class M>
concept FinalizesACopy = requires {
  static_cast<typename R::Coefficients (*)(Of<typename R::Coefficients>, const Totals<R::terms>&,
                                           int64, C&, M)>(&B::finalize);
};
template <class B, class E, class C>
concept HasUpdateState = requires(E& e, C& c) {
  requires kSame<decltype(B::update_state(e, c)), void>;
};
template <class B, class E, class C>
concept HasUpdateStateAfter = requires(E& e, C& c) {
  requires kSame<decltype(B::update_state_after(e, c)), void>;
};
template <class B, class E, class C>
concept HasUpdateParam = requires(E& e, C& c) {
  requires kSame<decltype(B::update_param(e, c)), void>;
};
template <class B, class R, class From, class C>
concept HasTerms = requires(Of<typename R::Coefficients> name, From& from, C& c) {
  requires kSame<decltype(B::terms(name, from, c)), Reals<R::terms>>;
};
template <class B, class R, class C, class M>
concept HasFinalize = requires(Of<typename R::Coefficients> name, Totals<R::terms>& sums, C& c,
                               M& m) {
  requires kSame<decltype(B::finalize(name, sums, 1, c, m)), typename R::Coefficients>;
}
|| requires(Of<typename R::Coefficients> name, Totals<R::terms>& sums, C& c) {
  requires kSame<decltype(B::finalize(name, sums, 1, c)), typename R::Coefficients>;
};

// A sum over all tensors belongs to no tensor. Its `finalize` sees only shared state. It sees no scalars if `prepare`
// computes them from a tensor's auxiliary state.
template <class B, class R, class C>
concept HasFinalizeWithoutAuxState = requires(Of<typename R::Coefficients> name,
                                              Totals<R::terms>& sums, C& c) {
  requires kSame<decltype(B::finalize(name, sums, 1, c)), typename R::Coefficients>;
};
struct ScalarsOfOneTensor {};
template <bool OfAll, class Scalars>
struct FinalizeScalars {
  using type = Scalars;
};
template <class Scalars>
struct FinalizeScalars<true, Scalars> {
  using type = ScalarsOfOneTensor;
};

template <class B, class E, class C>
concept HasEval = requires(E& e, C& c) {
  requires kSame<decltype(B::eval(e, c)), void>;
};
template <class B, class E, class C>
concept HasTrain = requires(E& e, C& c) {
  requires kSame<decltype(B::train(e, c)), void>;
};

// Checks a rule with modes.
template <class S, template <class, class> class SlotsOf>
class ModesCheck {
  using Body = typename S::Rule::Body;
  using View = ElementBetweenSteps<SlotsOf<SlotBetweenSteps, SlotBetweenSteps>>;
  using Context = const ScalarsBetweenSteps<ScalarsOf<typename S::Rule>>;

  static_assert(HasEval<Body, View, Context>,
                "the rule declares modes: it needs 'static void eval(auto& e, const auto& c)'");
  static_assert(HasTrain<Body, View, Context>,
                "the rule declares modes: it needs 'static void train(auto& e, const auto& c)'");

 public:
  // Instantiates the functions.
  static constexpr bool read_bodies() {
    if (false) {
      if constexpr (HasEval<Body, View, Context>) Body::eval(declare<View>(), declare<Context>());
      if constexpr (HasTrain<Body, View, Context>) Body::train(declare<View>(), declare<Context>());
    }
    return true;
  }
};

// SlotsOf: the slots that `update_state` sets, and those that `update_state_after` sets. Transformed: the results of
// the first host transforms.
template <class S, template <class, class> class SlotsOf, template <int> class ResultsIn,
          SlotTiming Timing, class OfElement, template <int> class Transformed>
class RuleCheck {
  using Rule = typename S::Rule;
  using Body = typename Rule::Body;
  using AuxState = typename Rule::AuxState;
  template <class First, class After, class P>
  using View = ElementView<SlotsOf<First, After>, OfElement, P>;
  using Open = View<OpenSlot, PreviousSlot, const real>;
  using New = View<NewSlot, PreviousSlot, real>;
  static constexpr int kStateSection = S::state_section > 0 ? S::state_section : S::transforms;
  using OpenAfter =
      TransformedView<View<NewSlot, OpenSlot, const real>, Transformed<kStateSection>>;
  using AtLast = TransformedView<View<NewSlot, NewSlot, real>, Transformed<S::transforms>>;
  // An element before a pass, with the results of the first Known transforms. Stage: which slots are new, 0 to 2.
  template <int Known, int Stage>
  struct ElementBefore {
    using type =
        const TransformedView<View<PreviousSlot, PreviousSlot, const real>, Transformed<Known>>;
  };
  template <int Known>
  struct ElementBefore<Known, 1> {
    using type = const TransformedView<New, Transformed<Known>>;
  };
  template <int Known>
  struct ElementBefore<Known, 2> {
    using type = const TransformedView<View<NewSlot, NewSlot, real>, Transformed<Known>>;
  };
  static constexpr int stage_of(int pass, int known) {
    if (S::state_section > 0 && known >= S::state_section && pass >= Timing.known_after) return 2;
    return pass >= Timing.known ? 1 : 0;
  }
  template <int K>
  using TransformAt = typename At<K, typename S::Transforms>::type;
  template <int Now>
  using Context = const ContextView<ScalarsOf<Rule>, ResultsIn<Now>>;

  static_assert(!NamesPrepare<Body> || HasPrepare<Body, typename Rule::Hyper, AuxState>,
                "'prepare' takes 'const Hyper& h, int64 t', then perhaps 'const Sizes& size', then "
                "perhaps 'AuxState& m'");
  static_assert(!PreparesACopy<Body, ScalarsOf<Rule>, typename Rule::Hyper, AuxState>,
                "'prepare' takes 'AuxState& m': what it writes to a copy is lost");
  static_assert(kIsClass<ScalarsOf<Rule>>, "'prepare' returns a structure of scalars");
  static_assert(!Timing.any || HasUpdateState<Body, Open, Context<kInUpdateState>>,
                "the rule has slots: it needs 'static void update_state(auto& e, const auto& c)'");
  static_assert(!Timing.any_after ||
                    HasUpdateStateAfter<Body, OpenAfter, Context<kInUpdateStateAfter>>,
                "the rule has slots after its host transform: it needs 'static void "
                "update_state_after(auto& e, const auto& c)'");
  static_assert(S::transforms > 0 ||
                    !HasUpdateStateAfter<Body, OpenAfter, Context<kInUpdateStateAfter>>,
                "the rule has 'update_state_after', but declares no host transform");
  static_assert(HasUpdateParam<Body, AtLast, Context<kInUpdateParam>>,
                "the rule needs 'static void update_param(auto& e, const auto& c)'");

  // The argument of a reduction's `terms`.
  template <class R, bool Over = R::has_source>
  struct From {
    static constexpr int known = known_transforms<S, R::pass>();
    using type = typename ElementBefore<known, stage_of(R::pass, known)>::type;
  };
  template <class R>
  struct From<R, true> {
    using type = const typename R::Type::Over::Coefficients;
  };

  // Two sums over all tensors would read each other's shared state, in an order that depends on the batches.
  static constexpr int sums_with_aux_state() {
    int count = 0;
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::component == kRuleComponent && R::is_global)
        count += finalize_has_aux_state<R>();
    });
    return count;
  }
  static_assert(
      sums_with_aux_state() <= 1,
      "the 'finalize' of one sum over all takes 'AuxState& m'; leave it out of the others");

  template <class R>
  static constexpr bool terms_fit = HasTerms<Body, R, typename From<R>::type, Context<R::pass>>;
  static constexpr bool prepares_for_one_tensor =
      PreparesFromSizes<Body, typename Rule::Hyper, AuxState> ||
      (rule_has_aux_state<S, tensor>() &&
       PreparesFromAuxState<Body, typename Rule::Hyper, AuxState>);
  // The context that a `finalize` may read.
  template <class R>
  using FinalizeContext = const ContextView<
      typename FinalizeScalars<R::is_global && prepares_for_one_tensor, ScalarsOf<Rule>>::type,
      ResultsIn<R::pass>>;
  template <class R>
  static constexpr bool fits() {
    if constexpr (R::is_global && !rule_has_aux_state<S, all>())
      return HasFinalizeWithoutAuxState<Body, R, FinalizeContext<R>>;
    else
      return HasFinalize<Body, R, FinalizeContext<R>, AuxState> &&
             !FinalizesACopy<Body, R, FinalizeContext<R>, AuxState>;
  }
  template <class R>
  static constexpr bool finalize_fits = fits<R>();

  static void update_state() {
    if constexpr (HasUpdateState<Body, Open, Context<kInUpdateState>>)
      Body::update_state(declare<Open>(), declare<Context<kInUpdateState>>());
  }
  template <int K>
  static void host_transforms() {
    if constexpr (K < S::transforms) {
      TransformAt<K>::input(declare<Computing<K>>(), declare<ContextOf<K>>());
      host_transforms<K + 1>();
    }
  }
  static void update_state_after() {
    if constexpr (S::transforms > 0 &&
                  HasUpdateStateAfter<Body, OpenAfter, Context<kInUpdateStateAfter>>)
      Body::update_state_after(declare<OpenAfter>(), declare<Context<kInUpdateStateAfter>>());
  }
  static void apply() {
    if constexpr (HasUpdateParam<Body, AtLast, Context<kInUpdateParam>>)
      Body::update_param(declare<AtLast>(), declare<Context<kInUpdateParam>>());
  }
  template <class R>
  static void reduction() {
    constexpr Of<typename R::Coefficients> name;
    auto& sums = declare<const Totals<R::terms>>();
    auto& c = declare<FinalizeContext<R>>();
    if constexpr (terms_fit<R>)
      Body::terms(name, declare<typename From<R>::type>(), declare<Context<R::pass>>());
    if constexpr (!finalize_fits<R>)
      return;
    else if constexpr ((!R::is_global || rule_has_aux_state<S, all>()) &&
                       requires { Body::finalize(name, sums, 1, c, declare<AuxState>()); })
      Body::finalize(name, sums, 1, c, declare<AuxState>());
    else
      Body::finalize(name, sums, 1, c);
  }

 public:
  // The arguments of the function that computes the input of transform K.
  template <int K>
  using Computing = typename ElementBefore<K, stage_of(TransformAt<K>::pass, K)>::type;
  template <int K>
  using ContextOf = Context<TransformAt<K>::pass>;

  // Whether the rule has the functions of a reduction.
  template <class R>
  static constexpr bool has_terms = terms_fit<R>;
  template <class R>
  static constexpr bool has_finalize = finalize_fits<R>;

  // Instantiates the functions. R: the rule's active reductions.
  template <class... R>
  static constexpr bool read_bodies() {
    if (false) {
      update_state();
      (reduction<R>(), ...);
      host_transforms<0>();
      update_state_after();
      apply();
    }
    return true;
  }
};

}  // namespace jitstep
