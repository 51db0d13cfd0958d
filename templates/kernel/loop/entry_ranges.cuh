// Looks up the results and auxiliary state of a range's elements once, so that a loop over the elements reads arrays.
// For one thread and dense elements.
#pragma once
#include "../../lang/port_cpu.cuh"
#include "../scope.cuh"
#include "entry_spans.cuh"

namespace jitstep {

// Elements begin to end - 1 of `count` elements from `base`, a multiple of kLeaf.
struct ElementRange {
  int64 base;
  int count, begin, end;
};
KHD ElementRange whole_range(int64 base, int count) { return {base, count, 0, count}; }

// `spans` spans of `length` elements, from element `at` of a range and from `entry`. Their entries are `step` apart.
struct EntryRun {
  int at, length, spans;
  int64 entry, step;
};

// Calls f(run) for the spans of a range. `walk` must be at its first element.
template <class F>
KHD void for_runs(const EntrySpan& span, EntryCursor walk, const ElementRange& elements, F&& f) {
  const int64 step = span.dims == 0 ? 0 : span.outer[0].step;
  int64 inside = walk.inside();
  for (int at = elements.begin; at < elements.end;) {
    const int left = elements.end - at;
    const int length = static_cast<int>(min<int64>(left, span.length - inside));
    const int spans =
        length < span.length ? 1 : static_cast<int>(min<int64>(left / length, walk.run(span)));
    f(EntryRun{at, length, spans, walk.entry() + inside * span.step, step});
    at += spans * length;
    walk.skip(span, spans);
    inside = 0;
  }
}

inline constexpr int kWide = 16;  // values that a few instructions can write

// to[i] = value for `length` elements. It may write up to `room` elements, because a fixed length is faster than a
// short loop.
template <class T>
KHD void fill(T* to, int length, int room, T value) {
  if (length < kWide && kWide <= room)
    for (int i = 0; i < kWide; ++i) to[i] = value;
  else
    for (int i = 0; i < length; ++i) to[i] = value;
}

// to[i] = from[entry + i * apart] for the elements of each span.
template <class T>
KHD void copy_spans(const EntryRun& run, int64 apart, const T* from, T* to) {
  constexpr int kShort = 8;
  from += run.entry;
  for (int left = run.spans; left > 0; --left, to += run.length, from += run.step)
    if (run.length <= kShort) {
      UNROLL
      for (int i = 0; i < kShort; ++i)
        if (i < run.length) to[i] = from[i * apart];
    } else if (apart == 1) {
      for (int i = 0; i < run.length; ++i) to[i] = from[i];
    } else {
      for (int i = 0; i < run.length; ++i) to[i] = from[i * apart];
    }
}

// Repeats the first `known` elements. All blocks of kWide elements are copied from the beginning, because a processor
// waits if it reads several values together soon after it wrote them one by one.
template <class T>
KHD void repeat(T* to, int known, int count) {
  int done = known;
  for (; done < count && done < known + kWide; ++done) to[done] = to[done - known];
  const int step = kWide % known;
  for (int phase = step; done + kWide <= count; done += kWide) {
    T block[kWide];
    copy_bytes(block, to + phase, sizeof block);
    copy_bytes(to + done, block, sizeof block);
    phase += step;
    phase -= phase < known ? 0 : known;
  }
  for (; done < count; ++done) to[done] = to[done - known];
}

// to[index in the range] = from[entry]. It may also write elements of `to` after the range, up to its count.
template <class T>
SLOW_PATH void broadcast_entries(const EntrySpan& span, const EntryCursor& walk,
                                 const ElementRange& elements, const T* from, T* to) {
  const int length = elements.end - elements.begin;
  const int fresh = static_cast<int>(min<int64>(length, span.period));
  const ElementRange first{elements.base, elements.count, elements.begin, elements.begin + fresh};
  for_runs(span, walk, first, [&](const EntryRun& run) {
    if (span.step == 0)
      for (int i = 0, at = run.at; i < run.spans; ++i, at += run.length)
        fill(to + at, run.length, elements.count - at, from[run.entry + i * run.step]);
    else
      copy_spans(run, span.step, from, to + run.at);
  });
  repeat(to + elements.begin, fresh, length);
}

// Copies the values for a range of `from` to the `count` elements of `to`. One function for all domains and loops,
// because compilers take long for it.
template <class T>
SLOW_PATH void copy_in_order(const EntrySpan& span, const EntryCursor& walk,
                             const ElementRange& elements, const T* from, T* to, int count) {
  const int length = elements.end - elements.begin;
  const int64 entry = walk.entry() + walk.inside() * span.step;
  if (walk.inside() + length > span.length) {
    broadcast_entries(span, walk, elements, from, to);
    for (int i = elements.count; i < count; ++i) to[i] = to[0];
  } else {
    for (int i = 0; i < count; ++i)
      to[i] = from[entry + min(max(i - elements.begin, 0), length - 1) * span.step];
  }
}

// An array's values for the elements of a range. If Whole, all Count are readable, otherwise those of the range. It
// does not copy values that are already in element order.
template <class Domain, class T, int Count, bool Whole>
class ValuesOfRange {
 public:
  template <class S>
  KHD ValuesOfRange(const Scope<S>& scope, const ElementRange& elements, const T* from) {
    const EntrySpan& span = scope.spans.template of<Domain>();
    const EntryCursor& walk = scope.spans.template walk<Domain>(elements.base + elements.begin);
    const int length = elements.end - elements.begin;
    const bool one_span = walk.inside() + length <= span.length;
    if (one_span && span.step == 1 && (!Whole || length == Count)) {
      values_ = from + walk.entry() + walk.inside() - elements.begin;
    } else if (one_span && span.step == 0) {
      spread(from[walk.entry()]);
    } else {
      copy_in_order(span, walk, elements, from, own_, Count);
    }
  }
  ValuesOfRange(const ValuesOfRange&) = delete;
  KHD const T& operator[](int i) const { return values_[i]; }

 private:
  // By value, because it may alias own_.
  KHD void spread(T value) {
    // vectorized: the loop that spreads an entry's value
    for (int i = 0; i < Count; ++i) own_[i] = value;
  }

  T own_[Count];
  const T* values_ = own_;
};

// ---- coefficients ------------------------------------------------------------------------------

// The results of a reduction that this pass may read, and that has several entries per tensor.
template <class S, class R, bool Wanted>
class CoefficientsOfRange {
 public:
  KHD CoefficientsOfRange(const Scope<S>& scope, const ElementRange& elements)
      : of_(scope, elements,
            static_cast<const typename R::Coefficients*>(
                scope.args.reductions[R::number].coefficients) +
                scope.tensor.reduction_layouts[R::reduction_layout].first_entry) {}
  KHD void put(int i, auto& gradient, auto& rule) const {
    coefficients_in<R>(gradient, rule) = of_[i];
  }

 private:
  ValuesOfRange<typename R::Domain, typename R::Coefficients, kLeaf, false> of_;
};
template <class S, class R>
struct CoefficientsOfRange<S, R, false> {
  KHD CoefficientsOfRange(const Scope<S>&, const ElementRange&) {}
  KHD void put(int, auto&, auto&) const {}
};

// Templates whose only parameter is the number, as Each (lang/list.cuh) requires. clang rejects a defaulted second
// one.
template <class S, int Pass>
struct ReductionsOfRange {
  template <class R>
  using OfReduction =
      CoefficientsOfRange<S, R,
                          (R::component < kFirstCodecComponent && R::pass < Pass && !R::uniform)>;
  template <int I>
  using Of = OfReduction<typename At<I, typename S::Reductions>::type>;
};
template <class S, int Pass>
using EntryCoefficients = Each<S::Reductions::size, ReductionsOfRange<S, Pass>::template Of>;

// ---- auxiliary state of codecs -----------------------------------------------------------------

// One field of a codec's auxiliary state for each element of a range. If Fresh, all Count values are readable,
// otherwise those of the range.
template <class S, class Field, int Count, bool Fresh, bool Wanted>
class FieldOfRange {
 public:
  KHD FieldOfRange(const Scope<S>& scope, const ElementRange& elements)
      : of_(scope, elements,
            Fresh ? Field::next(scope.tensor, scope.hyper_params)
                  : Field::prev(scope.tensor, scope.hyper_params)) {}
  KHD void put(int i, auto& aux) const {
    auto& value = aux.*Field::pointer;
    value.prev = of_[i];
    if constexpr (Fresh) value.next = of_[i];
  }

 private:
  ValuesOfRange<typename Field::Domain, typename Field::Value, Count, Fresh> of_;
};
template <class S, class Field, int Count, bool Fresh>
struct FieldOfRange<S, Field, Count, Fresh, false> {
  KHD FieldOfRange(const Scope<S>&, const ElementRange&) {}
  KHD void put(int, auto&) const {}
};

template <class S, int Component, int Count, bool Fresh>
struct FieldsOfRange {
  template <class Field>
  using OfField = FieldOfRange<S, Field, Count, Fresh, Field::component == Component>;
  template <int I>
  using Of = OfField<typename At<I, typename S::AuxFields>::type>;
};

// The auxiliary state that a rule's elements read, of their own entries.
template <class S, class Field, bool Wanted>
class OwnFieldOfRange {
 public:
  KHD OwnFieldOfRange(const Scope<S>& scope, const ElementRange& elements)
      : of_(scope, elements, Field::prev(scope.tensor, scope.hyper_params)) {}
  KHD void put(int i, auto& e) const { (e.*Field::pointer).prev = of_[i]; }

 private:
  ValuesOfRange<typename Field::Domain, typename Field::Value, kLeaf, false> of_;
};
template <class S, class Field>
struct OwnFieldOfRange<S, Field, false> {
  KHD OwnFieldOfRange(const Scope<S>&, const ElementRange&) {}
  KHD void put(int, auto&) const {}
};
template <class S>
struct OwnFieldsOfRange {
  template <class Field>
  using OfField = OwnFieldOfRange<S, Field, Field::of_elements>;
  template <int I>
  using Of = OfField<typename At<I, typename S::AuxFields>::type>;
};
template <class S>
using OwnState = Each<S::AuxFields::size, OwnFieldsOfRange<S>::template Of>;

// The auxiliary state of slot I's codec for each element of a range.
template <class S, int I, int Count, bool Fresh>
class AuxStateOfRange {
 public:
  KHD AuxStateOfRange(const Scope<S>& scope, const ElementRange& elements)
      : fields_(scope, elements) {}
  KHD auto operator[](int i) const {
    typename S::template Codec<I>::AuxState aux{};
    fields_.visit([&](auto, const auto& field) { field.put(i, aux); });
    return aux;
  }

 private:
  Each<S::AuxFields::size, FieldsOfRange<S, kFirstCodecComponent + I, Count, Fresh>::template Of>
      fields_;
};

}  // namespace jitstep
