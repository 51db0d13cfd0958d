// What a kernel is made of, and in which pass each of its reductions is taken.
// Knows the shape of rules and codecs; knows no formula, format or thread.
#pragma once
#include "../core/fragment.cuh"

namespace jitstep {

// The pass of each reduction a file declares, in order; -1: its condition does not hold.
template <int... P>
struct Passes {
  static constexpr int size = sizeof...(P);
  static constexpr int pass(int i) {
    const int passes[] = {P..., -1};
    return passes[i];
  }
  static constexpr int last() {
    int last = -1;
    for (int i = 0; i < size; ++i) last = pass(i) > last ? pass(i) : last;
    return last;
  }
};

// A rule, codec or gradient transform together with the structures its file declares.
template <class Body_, class Hyper_ = NoHyper, class Reductions_ = NoReductions,
          class Passes_ = Passes<>, class Memory_ = NoMemory, int MemoryFields = 0>
struct Part {
  using Body = Body_;
  using Hyper = Hyper_;
  using Reductions = Reductions_;
  using Passes = Passes_;
  using Memory = Memory_;
  static constexpr int memory_fields = MemoryFields;
};

// A slot that the flags leave out.
struct Absent {};
template <class Part>
inline constexpr bool kStored = true;
template <>
inline constexpr bool kStored<Absent> = false;

// ---- what a body offers, found by asking -------------------------------------------------------

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

// What the mathematics of a part can read: its scalars and the coefficients of earlier reductions.
template <class P>
struct Context : ScalarsOf<P>, P::Reductions {};

// ---- the specification of a step ---------------------------------------------------------------

// Strided: some p or g is not dense, and is read through its strides.
template <class Gradient_, class Rule_, class Slots_, class Codecs_, class Weights_, class G_,
          bool Strided, Variant V>
struct Spec {
  using Gradient = Gradient_;
  using Rule = Rule_;
  using Slots = Slots_;
  using Codecs = Codecs_;
  using Weights = Weights_;
  using P = typename Weights::Format;
  using G = G_;
  static constexpr bool strided = Strided;
  static constexpr Variant variant = V;
  static constexpr int slots = Codecs::size;
  static constexpr int parts = 2 + slots;
  template <int I>
  using Codec = typename At<I, Codecs>::type;
};

template <class S, int I>
struct PartOf {
  using type = typename S::template Codec<I - 2>;
};
template <class S>
struct PartOf<S, 0> {
  using type = typename S::Gradient;
};
template <class S>
struct PartOf<S, 1> {
  using type = typename S::Rule;
};

template <class P>
constexpr int reductions_of() {
  if constexpr (kStored<P>)
    return P::Passes::size;
  else
    return 0;
}
template <class P>
constexpr int memory_fields_of() {
  if constexpr (kStored<P>)
    return P::memory_fields;
  else
    return 0;
}

// Reductions and memory fields of all parts are numbered through, part after part.
template <class S, int I>
constexpr int first_reduction() {
  if constexpr (I == 0)
    return 0;
  else
    return first_reduction<S, I - 1>() + reductions_of<typename PartOf<S, I - 1>::type>();
}
template <class S, int I>
constexpr int first_memory() {
  if constexpr (I == 0)
    return 0;
  else
    return first_memory<S, I - 1>() + memory_fields_of<typename PartOf<S, I - 1>::type>();
}

template <class S, int I, int J>
constexpr int over_before();

// Reduction J of part I.
template <class S, int I, int J>
struct Reduction {
  using Part = typename PartOf<S, I>::type;
  static constexpr int local = J;
  static constexpr int siblings = Part::Passes::size;
  using Type = typename FieldType<J, siblings, typename Part::Reductions>::type;
  using Domain = typename Type::Domain;
  using Coefficients = typename Type::Coefficients;
  static constexpr int part = I;
  static constexpr int pass = Part::Passes::pass(J);
  static constexpr int number = first_reduction<S, I>() + J;
  static constexpr int terms = Type::terms;
  static constexpr bool everywhere = kSame<Domain, all>;
  static constexpr bool over = !kSame<typename Type::Over, Elements>;
  static constexpr bool uniform = Domain::space == 0;  // one coefficient for the whole tensor
  static constexpr int space() {
    if constexpr (over)
      return kOverSpace + over_before<S, I, J>();
    else
      return Domain::space;
  }
};

template <class S, class F>
KHD constexpr void for_parts(F&& f) {
  static_for<S::parts>([&](auto i) {
    if constexpr (kStored<typename PartOf<S, decltype(i)::value>::type>) f(i);
  });
}

// f(Reduction) for every reduction that is taken at all.
template <class S, class F>
KHD constexpr void for_reductions(F&& f) {
  for_parts<S>([&](auto i) {
    using P = typename PartOf<S, decltype(i)::value>::type;
    static_for<P::Passes::size>([&](auto j) {
      using R = Reduction<S, decltype(i)::value, decltype(j)::value>;
      if constexpr (R::pass >= 0) f(R{});
    });
  });
}

template <class S, int I, int J>
constexpr int over_before() {
  int before = 0;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part < I || (R::part == I && R::local < J)) before += R::over;
  });
  return before;
}

// The number of the part's reduction that makes these coefficients.
template <class S, int I, class Coefficients>
constexpr int reduction_number() {
  int number = -1;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part == I && kSame<typename R::Coefficients, Coefficients>) number = R::number;
  });
  return number;
}

// The space that reduction is walked in, and where its coefficients are found.
template <class S, int I, class Coefficients>
constexpr int reduction_space() {
  int space = -1;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (R::part == I && kSame<typename R::Coefficients, Coefficients>) space = R::space();
  });
  return space;
}

// Which dimensions run inside an entry of a space that belongs to a domain.
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

// What one launch of partial sums takes from one space.
template <class S, int Pass, int Space>
struct Walk {
  template <class R>
  static constexpr bool takes = R::pass == Pass&& R::space() == Space;
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

// Whether gradient transforms are complete before a pass, and so g and the new slots known.
template <class S, int Pass>
inline constexpr bool kGradientReady = S::Gradient::Passes::last() < Pass;

}  // namespace jitstep
