// Checks at compile time that a rule and its codecs follow the reference. It instantiates each function of a rule
// with views that contain only what the function may read and write. Nothing here runs or stays in the
// binary. The host knows the fields' names. It generates SlotsOf, ResultsIn and the assertions.
// (No back quotes in assertions: NVRTC prints them as question marks.)
#pragma once
#include "step.cuh"

namespace jitstep {

// ---- a codec -----------------------------------------------------------------------------------

template <class P>
using CodeOf = typename CodeStorage<typename P::Body::Code>::Register;
template <class P>
using MetaOf = typename P::Body::Meta;

// Loops use values and codes without conversion. A double or float would become another number implicitly.
template <class T>
inline constexpr bool kValue = kSame<T, real> || kSame<T, float>;
template <class T, class Code>
inline constexpr bool kCode = kSame<Code, real> ? kValue<T> : !kSame<T, float> && !kSame<T, double>;
template <bool>
struct Flag {};

template <class P>
concept SaysRandom = requires {
  Flag<P::Body::random>{};
};
template <class P>
concept HasDecode = requires(CodeOf<P> code, const MetaOf<P>& meta) {
  requires(!P::remembers);
  requires kValue<decltype(P::Body::decode(code, meta))>;
}
|| requires(CodeOf<P> code, const MetaOf<P>& meta, const typename P::Memory& m) {
  requires P::remembers;
  requires kValue<decltype(P::Body::decode(code, meta, m))>;
};
template <class P>
concept HasEncode =
    !kCoded<P> || requires(real x, const Measured<typename P::Body>& meta, uint32 bits) {
  requires(!P::remembers);
  static_cast<CodeOf<P>>(P::Body::encode(x, meta, bits));
  requires kCode<decltype(P::Body::encode(x, meta, bits)), CodeOf<P>>;
}
|| requires(real x, const Measured<typename P::Body>& meta, uint32 bits,
            const typename P::Memory& m) {
  requires P::remembers;
  static_cast<CodeOf<P>>(P::Body::encode(x, meta, bits, m));
  requires kCode<decltype(P::Body::encode(x, meta, bits, m)), CodeOf<P>>;
};
template <class P>
concept HasMeasure = P::Body::block == 1 ||
                     requires(real x, const uint32 (&key)[P::Body::keys],
                              const Measured<typename P::Body>* measured, const MetaOf<P>* meta) {
  requires kSame<decltype(P::Body::key(x, 0)), uint32>;
  P::Body::measure(key);
  meta = measured;  // Meta, or derived from it
};

// ---- a rule ------------------------------------------------------------------------------------

struct OldSlot {  // before `moments`
  const real was;
};
struct OpenSlot {  // in `moments`
  const real was;
  real next;
};
struct NewSlot {  // after `moments`
  const real was, next;
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

// Whether a function that runs in pass `now` may read a reduction of pass `pass` (-1: inactive).
inline constexpr int kInMoments = -1, kInApply = 1 << 20;
constexpr bool may_read(int now, int pass, bool marked_moments) {
  return pass < 0 || (now == kInMoments ? marked_moments : pass < now);
}

template <class Slots, class P>
struct ElementView : Slots {
  P p;
  const real g;
  const int64 index;
  ElementView(const ElementView&) = delete;  // what is written to a copy is lost
  void operator&() const = delete;           // a rule sees one element only
};
template <class View>
struct StagedView : View {  // `apply` of a rule with a host transform
  const real staged;
};
template <class Scalars, class Results>
struct ContextView : Scalars, Results {};

// The view of `eval` and `train`.
struct SlotBetweenSteps {
  const real was;
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
concept HasPrepare = requires(const H& h, M& m) {
  B::prepare(h, 1, m);
}
|| requires(const H& h) { B::prepare(h, 1); };
// A write to a copy of the auxiliary state is lost, too.
template <class B, class Scalars, class H, class M>
concept PreparesACopy = requires {
  static_cast<Scalars (*)(const H&, int64, M)>(&B::prepare);
};
template <class B, class R, class C, class M>
concept FinishesACopy = requires {
  static_cast<typename R::Coefficients (*)(Of<typename R::Coefficients>, const Totals<R::terms>&,
                                           int64, C&, M)>(&B::finish);
};
template <class B, class E, class C>
concept HasMoments = requires(E& e, C& c) {
  B::moments(e, c);
};
template <class B, class E, class C>
concept HasStaged = requires(E& e, C& c) {
  requires kSame<decltype(B::staged(e, c)), real>;
};
template <class B, class E, class C>
concept HasApply = requires(E& e, C& c) {
  B::apply(e, c);
};
template <class B, class R, class From, class C>
concept HasTerms = requires(Of<typename R::Coefficients> name, From& from, C& c) {
  requires kSame<decltype(B::terms(name, from, c)), Reals<R::terms>>;
};
template <class B, class R, class C, class M>
concept HasFinish = requires(Of<typename R::Coefficients> name, Totals<R::terms>& sums, C& c,
                             M& m) {
  requires kSame<decltype(B::finish(name, sums, 1, c, m)), typename R::Coefficients>;
}
|| requires(Of<typename R::Coefficients> name, Totals<R::terms>& sums, C& c) {
  requires kSame<decltype(B::finish(name, sums, 1, c)), typename R::Coefficients>;
};

// A sum over all tensors belongs to no tensor. Its `finish` sees only shared state, and no scalars that `prepare`
// computes from a tensor's auxiliary state.
template <class B, class R, class C>
concept HasFinishWithoutMemory = requires(Of<typename R::Coefficients> name, Totals<R::terms>& sums,
                                          C& c) {
  requires kSame<decltype(B::finish(name, sums, 1, c)), typename R::Coefficients>;
};
template <class B, class H, class M>
concept PreparesFromMemory = requires(const H& h, M& m) {
  B::prepare(h, 1, m);
};
struct ScalarsOfOneTensor {};
template <bool OfAll, class Scalars>
struct FinishScalars {
  using type = Scalars;
};
template <class Scalars>
struct FinishScalars<true, Scalars> {
  using type = ScalarsOfOneTensor;
};

template <class B, class E, class C>
concept HasEval = requires(E& e, C& c) {
  B::eval(e, c);
};
template <class B, class E, class C>
concept HasTrain = requires(E& e, C& c) {
  B::train(e, c);
};

// Checks a rule with modes.
template <class S, template <class> class SlotsOf>
class ModesCheck {
  using Body = typename S::Rule::Body;
  using View = ElementBetweenSteps<SlotsOf<SlotBetweenSteps>>;
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

// KnownPass: first pass in which new slots can be computed: after all reductions that `moments` reads.
template <class S, template <class> class SlotsOf, template <int> class ResultsIn, int KnownPass>
class RuleCheck {
  using Rule = typename S::Rule;
  using Body = typename Rule::Body;
  using Memory = typename Rule::Memory;
  using Open = ElementView<SlotsOf<OpenSlot>, const real>;
  using New = ElementView<SlotsOf<NewSlot>, real>;
  template <class View, bool Staged = S::staged>
  struct Applied {
    using type = View;
  };
  template <class View>
  struct Applied<View, true> {
    using type = StagedView<View>;
  };
  using AtLast = typename Applied<New>::type;
  template <int Now>
  using Context = const ContextView<ScalarsOf<Rule>, ResultsIn<Now>>;

  static_assert(!NamesPrepare<Body> || HasPrepare<Body, typename Rule::Hyper, Memory>,
                "'prepare' takes 'const Hyper& h, int64 t', then perhaps 'Memory& m'");
  static_assert(!PreparesACopy<Body, ScalarsOf<Rule>, typename Rule::Hyper, Memory>,
                "'prepare' takes 'Memory& m': what it writes to a copy is lost");
  static_assert(__is_class(ScalarsOf<Rule>), "'prepare' returns a structure of scalars");
  static_assert(kSame<typename S::Slots, NoSlots> || HasMoments<Body, Open, Context<kInMoments>>,
                "the rule has slots: it needs 'static void moments(auto& e, const auto& c)'");
  static_assert(!S::staged || HasStaged<Body, const New, Context<kInApply>>,
                "the rule declares a host stage: it needs 'static real staged(const auto& e, const "
                "auto& c)'");
  static_assert(HasApply<Body, AtLast, Context<kInApply>>,
                "the rule needs 'static void apply(auto& e, const auto& c)'");

  // The argument of a reduction's `terms`.
  template <class R, bool Over = R::over, bool Known = (R::pass >= KnownPass)>
  struct From {
    using type = const ElementView<SlotsOf<OldSlot>, const real>;
  };
  template <class R>
  struct From<R, false, true> {
    using type = const New;
  };
  template <class R, bool Known>
  struct From<R, true, Known> {
    using type = const typename R::Type::Over::Coefficients;
  };

  // Two sums over all tensors would read each other's shared state, in an order that depends on the batches.
  static constexpr int sums_with_memory() {
    int count = 0;
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::part == kRulePart && R::everywhere) count += finish_remembers<R>();
    });
    return count;
  }
  static_assert(sums_with_memory() <= 1,
                "the 'finish' of one sum over all takes 'Memory& m'; leave it out of the others");

  template <class R>
  static constexpr bool terms_fit = HasTerms<Body, R, typename From<R>::type, Context<R::pass>>;
  // The context that a `finish` may read.
  template <class R>
  using FinishContext = const ContextView<
      typename FinishScalars<R::everywhere && rule_keeps<S, tensor>() &&
                                 PreparesFromMemory<Body, typename Rule::Hyper, Memory>,
                             ScalarsOf<Rule>>::type,
      ResultsIn<R::pass>>;
  template <class R>
  static constexpr bool fits() {
    if constexpr (R::everywhere && !rule_keeps<S, all>())
      return HasFinishWithoutMemory<Body, R, FinishContext<R>>;
    else
      return HasFinish<Body, R, FinishContext<R>, Memory> &&
             !FinishesACopy<Body, R, FinishContext<R>, Memory>;
  }
  template <class R>
  static constexpr bool finish_fits = fits<R>();

  static void moments() {
    if constexpr (HasMoments<Body, Open, Context<kInMoments>>)
      Body::moments(declare<Open>(), declare<Context<kInMoments>>());
  }
  static void stage() {
    if constexpr (S::staged && HasStaged<Body, const New, Context<kInApply>>)
      Body::staged(declare<const New>(), declare<Context<kInApply>>());
  }
  static void apply() {
    if constexpr (HasApply<Body, AtLast, Context<kInApply>>)
      Body::apply(declare<AtLast>(), declare<Context<kInApply>>());
  }
  template <class R>
  static void reduction() {
    constexpr Of<typename R::Coefficients> name;
    auto& sums = declare<const Totals<R::terms>>();
    auto& c = declare<FinishContext<R>>();
    if constexpr (terms_fit<R>)
      Body::terms(name, declare<typename From<R>::type>(), declare<Context<R::pass>>());
    if constexpr (!finish_fits<R>)
      return;
    else if constexpr ((!R::everywhere || rule_keeps<S, all>()) &&
                       requires { Body::finish(name, sums, 1, c, declare<Memory>()); })
      Body::finish(name, sums, 1, c, declare<Memory>());
    else
      Body::finish(name, sums, 1, c);
  }

 public:
  // Whether the rule has the functions of a reduction.
  template <class R>
  static constexpr bool has_terms = terms_fit<R>;
  template <class R>
  static constexpr bool has_finish = finish_fits<R>;

  // Instantiates the functions. R: the rule's active reductions.
  template <class... R>
  static constexpr bool read_bodies() {
    if (false) {
      moments();
      (reduction<R>(), ...);
      stage();
      apply();
    }
    return true;
  }
};

}  // namespace jitstep
