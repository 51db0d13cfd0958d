// One thread's walk over a run of dense elements, each of which depends on nothing but itself: a plain loop
// from memory to memory, which the compiler vectorises. What blocks of state need beside it is done before
// and after the loop, so that no element waits in an array but for its block's scale.
#pragma once
#include "../core/lookup.cuh"
#include "element.cuh"

namespace jitstep {

template <class Part>
constexpr int block_of() {
  if constexpr (kStored<Part>)
    return Part::Body::block;
  else
    return 1;
}

// How many elements are walked at a time: those that share every block's meta data.
template <class S>
constexpr int run_length() {
  int run = kLeaf;
  static_for<S::slots>([&](auto s) {
    constexpr int block = block_of<typename S::template Codec<decltype(s)::value>>();
    if (block > 1 && block < run) run = block;
  });
  return run;
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
  bool alone = S::variant.threads == 1 && !S::strided && !has_entry_coefficients<S, Pass>() &&
               kSame<typename S::Weights::Extra, NoExtra>;
  static_for<S::slots>([&](auto s) {
    if (remembers<typename S::template Codec<decltype(s)::value>>()) alone = false;
  });
  return alone;
}

// ---- what is read --------------------------------------------------------------------------------

// Whether a codec's codes number the values of a book (core/codebook.cuh), which a run looks up at once.
template <class C>
concept HasBook = requires {
  typename C::Book;
};

// The codes of a run, one in each byte or word.
template <class C, int Most>
class CodesOfRun {
 public:
  KHD CodesOfRun(const void* codes, int64 base, int)
      : codes_(static_cast<const typename C::Code*>(codes) + base) {}
  KHD const typename C::Code* begin() const { return codes_; }

 private:
  const typename C::Code* codes_;
};
template <class C, int Most>
requires kSame<typename C::Code, Nibble>
class CodesOfRun<C, Most> {
 public:
  KHD CodesOfRun(const void* codes, int64 base, int count) {
    const auto* bytes = static_cast<const uint8*>(codes) + base / 2;
    INDEPENDENT
    for (int j = 0; j < (count + 1) / 2; ++j) {
      codes_[2 * j] = bytes[j] & 15;
      codes_[2 * j + 1] = bytes[j] >> 4;
    }
  }
  KHD const uint8* begin() const { return codes_; }

 private:
  uint8 codes_[Most];
};

template <class C, int Most>
class DecodedRun {
 public:
  KHD DecodedRun(const SlotBuffers& slot, int64 base, int count) : codes_(slot.codes, base, count) {
    if constexpr (C::block > 1)
      meta_ = static_cast<const typename C::Meta*>(slot.meta)[base / C::block];
  }
  KHD real operator[](int i) const { return C::decode(codes_.begin()[i], meta_); }

 private:
  CodesOfRun<C, Most> codes_;
  typename C::Meta meta_{};
};
template <HasBook C, int Most>
class DecodedRun<C, Most> {
 public:
  KHD DecodedRun(const SlotBuffers& slot, int64 base, int count)
      : codes_(slot.codes, base, count),
        values_(codes_.begin(), count),
        meta_(static_cast<const typename C::Meta*>(slot.meta)[base / C::block]) {}
  KHD real operator[](int i) const { return C::value_of(values_[i], meta_); }

 private:
  CodesOfRun<C, Most> codes_;
  LookedUp<C::Book::values, Most> values_;
  typename C::Meta meta_;
};

// The old values of slot I in one run; before the first step, the initial one. Chosen by bits: around a condition the
// compiler would jump, and make no vectors of the loop.
template <class S, int I, class Part = typename S::template Codec<I>>
class OldValues {
  using Bits = decltype(bits_of(real()));

 public:
  KHD OldValues(const Scope<S>& scope, int64 base, int count)
      : kept_(scope.tensor.slots[I], base, count),
        started_(step_number(scope.set) > 1 ? ~Bits{0} : Bits{0}),
        initial_(bits_of(static_cast<real>(scope.set.initial[I])) & ~started_) {}
  KHD real operator[](int i) const { return number_of((bits_of(kept_[i]) & started_) | initial_); }

 private:
  DecodedRun<typename Part::Body, run_length<S>()> kept_;
  Bits started_, initial_;
};
template <class S, int I>
class OldValues<S, I, Absent> {
 public:
  KHD OldValues(const Scope<S>& scope, int64, int)
      : initial_(static_cast<real>(scope.set.initial[I])) {}
  KHD real operator[](int) const { return initial_; }

 private:
  real initial_;
};

// Those of slots 0 to Count - 1.
template <class S, int Count = S::slots>
struct AllOldValues : AllOldValues<S, Count - 1> {
  KHD AllOldValues(const Scope<S>& scope, int64 base, int count)
      : AllOldValues<S, Count - 1>(scope, base, count), last(scope, base, count) {}
  OldValues<S, Count - 1> last;
};
template <class S>
struct AllOldValues<S, 0> {
  KHD AllOldValues(const Scope<S>&, int64, int) {}
};

// f(i, element) for a run of elements from number base on, with the slots as they will be if all that they
// depend on is known.
template <class S, int Pass, class F>
KHD void for_run(const Scope<S>& scope, int64 base, int count, F&& f) {
  const auto* p = static_cast<const typename S::P::Bits*>(scope.tensor.p) + base;
  const auto* g = static_cast<const typename S::G::Bits*>(scope.step.g) + base;
  const AllOldValues<S> was(scope, base, count);
  const auto gradient = scope.gradient;
  const auto rule = scope.rule;
  const int64 first = scope.tensor.offset + base;
  INDEPENDENT
  for (int i = 0; i < count; ++i) {
    Element<typename S::Slots> e;
    e.p = S::Weights::load(p[i]);
    e.g = S::Gradient::Body::scale(static_cast<real>(S::G::load(g[i])), gradient);
    e.index = first + i;
    static_for<S::slots>([&](auto s) {
      constexpr int I = decltype(s)::value;
      set_slot<S, I>(e, static_cast<const AllOldValues<S, I + 1>&>(was).last[i]);
    });
    advance<S, Pass>(e, gradient, rule);
    f(i, e, gradient, rule);
  }
}

// ---- what is written -----------------------------------------------------------------------------

// Random bits for each element of a run, stored a word, two elements' fields, at a time.
template <int N>
struct RandomRun {
  static_assert(kLittleEndian, "the lower field of a word lies first");
  typedef uint32 Word __attribute__((may_alias));

  alignas(Word) uint16 bits[N];
  KHD RandomRun(const RandomKey& key, int64 first) {
    auto* words = reinterpret_cast<Word*>(bits);
    INDEPENDENT
    for (int octet = 0; octet < N / 8; ++octet) {
      const RandomWords random = philox(key, static_cast<uint64>(first) / 8 + octet);
      UNROLL
      for (int k = 0; k < 4; ++k) words[4 * octet + k] = random.word[k];
    }
  }
  KHD uint32 operator[](int i) const { return bits[i]; }
};
template <>
struct RandomRun<0> {
  KHD RandomRun(const RandomKey&, int64) {}
  KHD uint32 operator[](int) const { return 0; }
};

// What is measured of a codec block: its Meta, or what derives from it to tell `encode` more than is kept.
template <class Codec>
struct MeasureOf {
  using type = typename Codec::Meta;
};
template <class Codec>
requires requires(const uint32 (&key)[Codec::keys]) { Codec::measure(key); }
struct MeasureOf<Codec> {
  using type = decltype(Codec::measure(*static_cast<const uint32 (*)[Codec::keys]>(nullptr)));
};
template <class Codec>
using Measured = typename MeasureOf<Codec>::type;

// That of the one block that count values lie in.
template <class Codec>
KHD Measured<Codec> measure(const real* x, int count) {
  uint32 key[Codec::keys];
  for (int n = 0; n < Codec::keys; ++n) {
    uint32 most = 0;
    for (int i = 0; i < count; ++i) most = max(most, Codec::key(x[i], n));
    key[n] = most;
  }
  return Codec::measure(key);
}

// The codes of count values that share a Meta.
template <class C, int Most>
class EncodedRun {
 public:
  KHD EncodedRun(const real* x, int, const Measured<C>& meta) : x_(x), meta_(meta) {}
  template <class Random>
  KHD auto code(int i, const Random& random) const {
    return C::encode(x_[i], meta_, random[i]);
  }

 private:
  const real* x_;
  Measured<C> meta_;
};
template <HasBook C, int Most>
class EncodedRun<C, Most> {
 public:
  KHD EncodedRun(const real* x, int count, const Measured<C>& meta)
      : x_(x), meta_(meta), candidates_(x, count, meta), thresholds_(candidates_.x, count) {}
  template <class Random>
  KHD auto code(int i, const Random&) const {
    return C::code_of(x_[i], meta_, candidates_.x[i], thresholds_[i]);
  }

 private:
  struct Candidates {
    uint8 x[Most];
    KHD Candidates(const real* from, int count, const Measured<C>& meta) {
      INDEPENDENT
      for (int i = 0; i < count; ++i) x[i] = C::candidate(from[i], meta);
    }
  };

  const real* x_;
  Measured<C> meta_;
  Candidates candidates_;
  LookedUp<C::Book::thresholds, Most> thresholds_;
};

// code(i) for i below count, as codes lie in memory.
template <class C, int Most, class F>
KHD void store_codes(void* codes, int64 base, int count, F&& code) {
  if constexpr (kSame<typename C::Code, Nibble>) {
    uint8 one[Most + 1];
    INDEPENDENT
    for (int i = 0; i < count; ++i) one[i] = code(i);
    one[count] = 0;
    auto* to = static_cast<uint8*>(codes) + base / 2;
    INDEPENDENT
    for (int j = 0; j < (count + 1) / 2; ++j)
      to[j] = static_cast<uint8>(one[2 * j] | one[2 * j + 1] << 4);
  } else {
    auto* to = static_cast<typename C::Code*>(codes) + base;
    INDEPENDENT
    for (int i = 0; i < count; ++i) to[i] = code(i);
  }
}

// Encodes count values of slot I, from element base on, which share a Meta.
template <class S, int I>
KHD void encode_run(const Scope<S>& scope, int64 base, int count, const real* x) {
  using C = typename S::template Codec<I>::Body;
  constexpr int kMost = C::block > 1 ? C::block : kLeaf;
  const SlotBuffers& slot = scope.tensor.slots[I];
  Measured<C> meta{};
  if constexpr (C::block > 1) {
    meta = measure<C>(x, count);
    static_cast<typename C::Meta*>(slot.meta)[base / C::block] = meta;
  }
  const RandomRun<C::random ? kMost : 0> random(random_key(scope, I + 1),
                                                scope.tensor.offset + base);
  const EncodedRun<C, kMost> encoded(x, count, meta);
  store_codes<C, kMost>(slot.codes, base, count, [&](int i) { return encoded.code(i, random); });
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

// Elements base to base + count - 1, a whole number of blocks but at the tensor's end.
template <class S, int Pass, int Most>
KHD void apply_loop(const Scope<S>& scope, int64 base, int count) {
  using W = typename S::Weights;
  constexpr int kRun = run_length<S>();
  real next[S::slots > 0 ? S::slots : 1][Most];
  for (int start = 0; start < count; start += kRun) {
    const int length = min(count - start, kRun);
    const int64 first = base + start;
    auto* p = static_cast<typename S::P::Bits*>(scope.tensor.p) + first;
    const auto* staged = static_cast<const real*>(scope.step.staged) + first;
    const RandomRun<W::random ? kRun : 0> random(random_key(scope, 0), scope.tensor.offset + first);
    for_run<S, Pass>(scope, first, length, [&](int i, auto& e, const auto&, const auto& rule) {
      if constexpr (S::staged) e.staged = staged[i];
      S::Rule::Body::apply(e, rule);
      p[i] = W::store(e.p, random[i]);
      static_for<S::slots>([&](auto s) {
        constexpr int I = decltype(s)::value;
        using Part = typename S::template Codec<I>;
        if constexpr (kStored<Part>) {
          const real x = flush_subnormal(S::template slot<I>(e).next);
          if constexpr (encodes_at_once<Part>())
            (static_cast<typename Part::Body::Code*>(scope.tensor.slots[I].codes) + first)[i] =
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
