// The components of a kernel, as the host planned them. Knows the interface of rules and codecs. Independent
// of formulas, formats and threads.
#pragma once
#include "../core/fragment.cuh"

namespace jitstep {

// A rule, codec or gradient transform with the structures that its file declares. For a codec with numbers,
// `Numbers::of` computes them from the rule's.
template <class Body_, class Hyper_ = NoHyper, class Reductions_ = NoReductions,
          class Memory_ = NoMemory, class Numbers_ = void>
struct Part {
  using Body = Body_;
  using Hyper = Hyper_;
  using Reductions = Reductions_;
  using Memory = Memory_;
  using Numbers = Numbers_;
  static constexpr bool remembers = !kSame<Memory, NoMemory>;
};

// A slot that flags leave out.
struct Absent {};
template <class Part>
inline constexpr bool kStored = true;
template <>
inline constexpr bool kStored<Absent> = false;

// Whether a slot has codes. The last launch of a step writes them.
template <class Part>
inline constexpr bool kCoded = !kSame<typename Part::Body::Code, NoCode>;
template <>
inline constexpr bool kCoded<Absent> = false;

// ---- optional functions of a body --------------------------------------------------------------

template <class P>
KHD auto prepare(const typename P::Hyper& h, int64 t, typename P::Memory& m) {
  if constexpr (requires { P::Body::prepare(h, t, m); })
    return P::Body::prepare(h, t, m);
  else if constexpr (requires { P::Body::prepare(h, t); })
    return P::Body::prepare(h, t);
  else
    return NoScalars{};
}
template <class P>
using ScalarsOf =
    decltype(prepare<P>(declare<typename P::Hyper>(), 1, declare<typename P::Memory>()));

// The context `c` of a component's functions: its scalars, and the results of earlier reductions.
template <class P>
struct Context : ScalarsOf<P>, P::Reductions {};

// ---- the host's plan: a row per active reduction and per field of auxiliary state -----------------

// Numbers of components: gradient transforms, rule, then the codec of each slot.
inline constexpr int kGradientPart = 0, kRulePart = 1, kFirstCodecPart = 2;

struct Planned {
  int part;
  int number;     // among active reductions
  int pass;       // pass of the reduction
  int space;      // reduction layout of its terms
  int over = -1;  // number of the reduction whose entries it reduces; -1: elements
};

template <class Part_, Planned Row, auto Pointer>
struct Reduction : Member<Pointer> {
  using Part = Part_;
  using Type = typename Member<Pointer>::Type;
  using Domain = typename Type::Domain;
  using Coefficients = typename Type::Coefficients;
  static constexpr int part = Row.part, number = Row.number, pass = Row.pass, space = Row.space;
  static constexpr int source = Row.over, terms = Type::terms;
  static constexpr bool everywhere = kSame<Domain, all>;
  static constexpr bool over = source >= 0;
  static constexpr bool uniform = Domain::space == 0;  // one result per tensor
};

// The step number without skipped steps: of a tensor, and of the
// optimizer.
KHD int64 step_number(const HyperSet& set) { return set.lag == nullptr ? set.t : set.t - *set.lag; }
KHD int64 common_number(const HyperSet& set) {
  return set.common_lag == nullptr ? set.round : set.round - *set.common_lag;
}

template <int PartNumber, int Number, auto Pointer>
struct MemoryField : Member<Pointer> {
  using Domain = typename Member<Pointer>::Type::Domain;
  using Value = typename Member<Pointer>::Type::Value;
  static constexpr int part = PartNumber, number = Number;
  // The two buffers are swapped in every step of the tensor or, for domain `all`, of the optimizer.
  KHD static Value* next(const TensorRecord& t, const HyperSet& set) {
    return static_cast<Value*>(t.memory[number][turn(set) & 1]);
  }
  KHD static Value* was(const TensorRecord& t, const HyperSet& set) {
    return static_cast<Value*>(t.memory[number][(turn(set) + 1) & 1]);
  }

 private:
  KHD static int64 turn(const HyperSet& set) {
    return kSame<Domain, all> ? common_number(set) : step_number(set);
  }
};

// ---- the specification of a step ---------------------------------------------------------------

// SlotFields: a Member of Slots for each codec. Strided: some p or g is not dense, and needs its
// strides. The flag after it: the rule has a host transform.
template <class Gradient_, class Rule_, class Slots_, class SlotFields, class Codecs_,
          class Reductions_, class MemoryFields_, class Weights_, class G_, bool Strided,
          bool Staged, Variant V>
struct Spec {
  using Gradient = Gradient_;
  using Rule = Rule_;
  using Slots = Slots_;
  using Codecs = Codecs_;
  using Reductions = Reductions_;
  using MemoryFields = MemoryFields_;
  using Weights = Weights_;
  using P = typename Weights::Format;
  using G = G_;
  static constexpr bool strided = Strided;
  static constexpr bool staged = Staged;
  static constexpr Variant variant = V;
  static constexpr int slots = Codecs::size;
  template <int I>
  using Codec = typename At<I, Codecs>::type;
  template <int I>
  KHD static auto& slot(auto& e) {
    return e.*At<I, SlotFields>::type::pointer;
  }
};

// Calls f(Reduction) for every active reduction.
template <class S, class F>
KHD constexpr void for_reductions(F&& f) {
  for_list(typename S::Reductions{}, f);
}

// Whether the rule has auxiliary state of a domain.
template <class S, class Domain>
constexpr bool rule_keeps() {
  bool keeps = false;
  for_list(typename S::MemoryFields{}, [&](auto row) {
    using Field = decltype(row);
    if constexpr (Field::part == kRulePart && kSame<typename Field::Domain, Domain>) keeps = true;
  });
  return keeps;
}

// Whether the `finish` of a reduction takes auxiliary state.
template <class R>
constexpr bool finish_remembers() {
  using Part = typename R::Part;
  if constexpr (Part::remembers && R::part == kRulePart)
    return requires(Context<Part> & c, typename Part::Memory & m) {
      Part::Body::finish(Of<typename R::Coefficients>{}, Totals<R::terms>{}, 1, c, m);
    };
  else
    return Part::remembers;
}

// Whether a `finish` of the rule's active reductions writes auxiliary state of a domain.
template <class S, class Domain>
constexpr bool rule_finishes() {
  bool finishes = false;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part == kRulePart && kSame<typename R::Domain, Domain>)
      finishes = finishes || finish_remembers<R>();
  });
  return finishes;
}

// The dimensions inside an entry of a domain's layout, as bits.
template <int SpaceNumber>
KHD uint32 reduced_in(int dims) {
  if constexpr (SpaceNumber == tensor::space)
    return tensor::reduced(dims);
  else if constexpr (SpaceNumber == first::space)
    return first::reduced(dims);
  else if constexpr (SpaceNumber == rows::space)
    return rows::reduced(dims);
  else if constexpr (SpaceNumber == columns::space)
    return columns::reduced(dims);
  else if constexpr (SpaceNumber == matrices::space)
    return matrices::reduced(dims);
  else
    return axis<SpaceNumber - 5>::reduced(dims);
}

// The reductions of one pass in one layout.
template <class S, int Pass, int Space>
struct Walk {
  template <class R>
  static constexpr bool takes = R::pass == Pass&& R::space == Space;
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

// Whether gradient transforms are complete before a pass, so that g and new slots can be computed.
template <class S, int Pass>
constexpr bool gradient_ready() {
  bool ready = true;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part == kGradientPart && R::pass >= Pass) ready = false;
  });
  return ready;
}

// Whether the new values of a slot without codes are known before a pass: after its codec's reductions.
template <class S, int I, int Pass>
constexpr bool knows_what_is_kept() {
  using Part = typename S::template Codec<I>;
  bool known = kStored<Part> && !kCoded<Part>;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part == kFirstCodecPart + I && R::pass >= Pass) known = false;
  });
  return known;
}

}  // namespace jitstep
