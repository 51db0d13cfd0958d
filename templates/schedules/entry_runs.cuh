// The results and auxiliary state of the elements of a range. They are looked up once for the range, so
// that a loop over its elements reads arrays. For one thread and dense elements.
#pragma once
#include "coded_run.cuh"
#include "element.cuh"

namespace jitstep {

// Elements begin to end - 1 of `count` elements from `base`, a multiple of kLeaf.
struct Run {
  int64 base;
  int count, begin, end;
};
KHD Run whole_run(int64 base, int count) { return {base, count, 0, count}; }

// Calls f(index in the range, length, entry) for each span of a range. The cursor must be at its first element.
template <class F>
KHD void for_pieces(const Piece& piece, PieceWalk walk, const Run& run, F&& f) {
  for (int64 at = run.begin, inside = walk.inside(); at < run.end; walk.next(piece)) {
    const int64 length = min(run.end - at, piece.length - inside);
    f(static_cast<int>(at), static_cast<int>(length), walk.entry() + inside * piece.step);
    at += length;
    inside = 0;
  }
}

inline constexpr int kWide = 16;  // values that a few instructions can write

// to[i] = value for `length` elements. It may write more elements, up to `room`, because that is faster than a short
// loop.
template <class T>
KHD void fill(T* to, int length, int room, T value) {
  if (length < kWide && kWide <= room)
    for (int i = 0; i < kWide; ++i) to[i] = value;
  else
    for (int i = 0; i < length; ++i) to[i] = value;
}

// Repeats the first `known` elements.
template <class T>
KHD void repeat(T* to, int known, int count) {
  for (; known < count; known *= 2)
    for (int i = 0, rest = min(known, count - known); i < rest; ++i) to[known + i] = to[i];
}

// to[index in the range] = from[entry]. It may also write elements of `to` after the range, up to its count.
template <class T>
SLOW_PATH void spread_entries(const Piece& piece, const PieceWalk& walk, const Run& run,
                              const T* from, T* to) {
  const int length = run.end - run.begin;
  const int fresh = static_cast<int>(min<int64>(length, piece.period));
  const Run first{run.base, run.count, run.begin, run.begin + fresh};
  for_pieces(piece, walk, first, [&](int at, int count, int64 entry) {
    if (piece.step == 0)
      fill(to + at, count, run.count - at, from[entry]);
    else if (piece.step == 1)
      for (int i = 0; i < count; ++i) to[at + i] = from[entry + i];
    else
      for (int i = 0; i < count; ++i) to[at + i] = from[entry + i * piece.step];
  });
  repeat(to + run.begin, fresh, length);
}

// An array's values for the elements of a range. If Whole, all Count are readable, otherwise those of the range. Values
// that are already in element order are not copied.
template <class Domain, class T, int Count, bool Whole>
class ValuesOfRun {
 public:
  template <class S>
  KHD ValuesOfRun(const Scope<S>& scope, const Run& run, const T* from) {
    const Piece& piece = scope.pieces.template of<Domain>();
    const PieceWalk& walk = scope.pieces.template walk<Domain>(run.base + run.begin);
    const int length = run.end - run.begin;
    const int64 entry = walk.entry() + walk.inside() * piece.step;
    if (walk.inside() + length > piece.length) {
      spread_entries(piece, walk, run, from, own_);
      for (int i = run.count; i < Count; ++i) own_[i] = own_[0];
    } else if (piece.step == 1 && (!Whole || length == Count)) {
      values_ = from + entry - run.begin;
    } else if (piece.step == 0) {
      const T value = from[entry];  // loaded once, because it may alias own_
      // vectorized: the loop that spreads an entry's value
      for (int i = 0; i < Count; ++i) own_[i] = value;
    } else {
      for (int i = 0; i < Count; ++i)
        own_[i] = from[entry + clamped(i - run.begin, length) * piece.step];
    }
  }
  ValuesOfRun(const ValuesOfRun&) = delete;
  KHD const T& operator[](int i) const { return values_[i]; }

 private:
  KHD static int clamped(int place, int length) { return min(max(place, 0), length - 1); }

  T own_[Count];
  const T* values_ = own_;
};

// ---- coefficients ------------------------------------------------------------------------------

// Results of a reduction that is known before a pass, and that has several entries per tensor.
template <class S, class R, bool Wanted>
class CoefficientsOfRun {
 public:
  KHD CoefficientsOfRun(const Scope<S>& scope, const Run& run)
      : of_(scope, run,
            static_cast<const typename R::Coefficients*>(
                scope.args.reductions[R::number].coefficients) +
                scope.tensor.spaces[R::space].first_entry) {}
  KHD void put(int i, auto& gradient, auto& rule) const {
    coefficients_in<R>(gradient, rule) = of_[i];
  }

 private:
  ValuesOfRun<typename R::Domain, typename R::Coefficients, kLeaf, false> of_;
};
template <class S, class R>
struct CoefficientsOfRun<S, R, false> {
  KHD CoefficientsOfRun(const Scope<S>&, const Run&) {}
  KHD void put(int, auto&, auto&) const {}
};

// Templates with the number as their only parameter, as Each (core/list.cuh) requires: clang rejects a defaulted second.
template <class S, int Pass>
struct ReductionsOfRun {
  template <class R>
  using OfReduction =
      CoefficientsOfRun<S, R, (R::part < kFirstCodecPart && R::pass < Pass && !R::uniform)>;
  template <int I>
  using Of = OfReduction<typename At<I, typename S::Reductions>::type>;
};
template <class S, int Pass>
using EntryCoefficients = Each<S::Reductions::size, ReductionsOfRun<S, Pass>::template Of>;

// ---- auxiliary state of codecs -----------------------------------------------------------------

// One field of a codec's auxiliary state for Count elements, as the scope has it for one. All Count fresh values
// are readable, of others those of the range.
template <class S, class Field, int Count, bool Fresh, bool Wanted>
class FieldOfRun {
 public:
  KHD FieldOfRun(const Scope<S>& scope, const Run& run)
      : of_(scope, run,
            Fresh ? Field::next(scope.tensor, scope.set) : Field::was(scope.tensor, scope.set)) {}
  KHD void put(int i, auto& memory) const {
    auto& value = memory.*Field::pointer;
    value.was = of_[i];
    if constexpr (Fresh) value.next = of_[i];
  }

 private:
  ValuesOfRun<typename Field::Domain, typename Field::Value, Count, Fresh> of_;
};
template <class S, class Field, int Count, bool Fresh>
struct FieldOfRun<S, Field, Count, Fresh, false> {
  KHD FieldOfRun(const Scope<S>&, const Run&) {}
  KHD void put(int, auto&) const {}
};

template <class S, int Part, int Count, bool Fresh>
struct FieldsOfRun {
  template <class Field>
  using OfField = FieldOfRun<S, Field, Count, Fresh, Field::part == Part>;
  template <int I>
  using Of = OfField<typename At<I, typename S::MemoryFields>::type>;
};

// The auxiliary state of slot I's codec for each element of a range.
template <class S, int I, int Count, bool Fresh>
class MemoryOfRun {
 public:
  KHD MemoryOfRun(const Scope<S>& scope, const Run& run) : fields_(scope, run) {}
  KHD auto operator[](int i) const {
    typename S::template Codec<I>::Memory memory{};
    fields_.visit([&](auto, const auto& field) { field.put(i, memory); });
    return memory;
  }

 private:
  Each<S::MemoryFields::size, FieldsOfRun<S, kFirstCodecPart + I, Count, Fresh>::template Of>
      fields_;
};

}  // namespace jitstep
