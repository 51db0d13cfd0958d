// The terms and sums of one leaf by one thread, in loops over dense elements.
#pragma once
#include "../leaf_sums.cuh"
#include "load.cuh"

namespace jitstep {

// Calls take(reduction, terms, index) for each reduction over elements of a pass, and for each of `count` consecutive
// elements.
template <class S, int Pass, class F>
KHD void for_terms(const Scope<S>& scope, int64 element, int count, F&& take) {
  for (int done = 0; done < count;) {
    const int64 base = (element + done) / kLeaf * kLeaf;
    const int begin = static_cast<int>(element + done - base);
    const int end = min(begin + count - done, kLeaf);
    const ElementRange elements{base, static_cast<int>(min<int64>(scope.tensor.n - base, kLeaf)),
                                begin, end};
    const int shift = done - begin;
    for_range<S, Pass>(scope, elements,
                       [&](int i, const auto& e, const auto& gradient, const auto& rule) INLINED {
                         for_reductions<S>([&](auto r) {
                           using R = decltype(r);
                           if constexpr (R::pass == Pass && !R::has_source)
                             take(r, element_terms<S, R>(e, gradient, rule), shift + i);
                         });
                       });
    done += end - begin;
  }
}

// The terms of a leaf's elements.
template <class S, int Pass>
SLOW_PATH void take_elements_in_loops(const Scope<S>& scope, int64 element, int count,
                                      LeafTerms<S, Pass, 0>& x) {
  using L = LeafSums<S, Pass, 0>;
  for_terms<S, Pass>(scope, element, count, [&](auto r, const auto& terms, int i) {
    using R = decltype(r);
    if constexpr (L::Here::template takes<R>) L::template take<R>(terms, x, i, true);
  });
}

// ---- reductions over elements of entries -------------------------------------------------------

// The terms of up to kLeaf consecutive elements, for some layouts of a pass, as bits.
template <class S, int Pass, uint32 Layouts>
class RangeTerms {
 public:
  // The terms of one layout, in the order of PassReductions.
  template <int LayoutNumber>
  using OfLayout = real[LeafSums<S, Pass, LayoutNumber>::kTerms][kLeaf];
  template <int LayoutNumber>
  KHD OfLayout<LayoutNumber>& of() {
    return reinterpret_cast<OfLayout<LayoutNumber>&>(terms_[before(LayoutNumber)]);
  }
  template <class R>
  static constexpr bool has = (Layouts >> R::reduction_layout & 1u) != 0;
  template <class R>
  KHD void put(const auto& terms, int i) {
    constexpr int first = before(R::reduction_layout) +
                          PassReductions<S, Pass, R::reduction_layout>::template first_term<R>();
    for (int n = 0; n < R::terms; ++n) terms_[first + n][i] = terms[n];
  }

 private:
  static constexpr int before(int layout) {
    int count = 0;
    static_for<kNestedLayout>([&](auto other) {
      constexpr int kOther = decltype(other)::value;
      if (kOther < layout && (Layouts >> kOther & 1u) != 0)
        count += PassReductions<S, Pass, kOther>::terms();
    });
    return count;
  }
  real terms_[before(kNestedLayout)][kLeaf];
};

// Computes the terms of `count` consecutive elements. One function for all layouts and loops of a pass, because
// compilers take long for it.
template <class S, int Pass, uint32 Layouts>
SLOW_PATH void compute_terms(const Scope<S>& scope, int64 element, int count,
                             RangeTerms<S, Pass, Layouts>& to) {
  for_terms<S, Pass>(scope, element, count, [&](auto r, const auto& terms, int i) {
    using R = decltype(r);
    if constexpr (RangeTerms<S, Pass, Layouts>::template has<R>) to.template put<R>(terms, i);
  });
}

// Copies the terms of one layout to x[][first] and following.
template <class S, int Pass, int LayoutNumber>
KHD void copy_terms(RangeTerms<S, Pass, 1u << LayoutNumber>& terms, int count, auto& x, int first) {
  const auto& from = terms.template of<LayoutNumber>();
  for (int n = 0; n < LeafSums<S, Pass, LayoutNumber>::kTerms; ++n)
    for (int i = 0; i < count; ++i) x[n][first + i] = from[n][i];
}

// Stores the sums of leaf `leaf` of `width` adjacent entries. sums[term][first + i]: of entry `entry` + i * `step`.
template <class S, int Pass, int LayoutNumber>
KHD void store_side_by_side(const Scope<S>& scope, int64 leaf, int64 entry, int width,
                            const auto& sums, int first, int64 step = 1) {
  constexpr int kTerms = LeafSums<S, Pass, LayoutNumber>::kTerms;
  for (int i = 0; i < width; ++i) {
    double sum[kTerms];
    for (int n = 0; n < kTerms; ++n) sum[n] = sums[n][first + i];
    const int64 first_leaf =
        (entry + i * step) * scope.tensor.reduction_layouts[LayoutNumber].leaves;
    store_partial<S, Pass, LayoutNumber>(scope, first_leaf + leaf, sum);
  }
}

// ---- loops that know only how many terms a layout has, and which are maxima ---------------------
// They are the same for many layouts and passes, so a kernel has one copy.

struct TermOps {
  int count;
  uint32 maxima;  // bit n: term n is a maximum, otherwise a sum
  constexpr bool in_any_order() const { return maxima == (1ull << count) - 1; }
};
template <class S, int Pass, int LayoutNumber>
constexpr TermOps term_ops() {
  using Here = PassReductions<S, Pass, LayoutNumber>;
  TermOps ops{LeafSums<S, Pass, LayoutNumber>::kTerms, 0};
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (Here::template takes<R>)
      for (int n = 0; n < R::terms; ++n)
        if (R::Op::in_any_order) ops.maxima |= 1u << (Here::template first_term<R>() + n);
  });
  return ops;
}
// Calls f(Op, n) for each term.
template <TermOps Ops, class F>
KHD void for_ops(F&& f) {
  static_for<Ops.count>([&](auto n) {
    if constexpr ((Ops.maxima >> decltype(n)::value & 1u) != 0)
      f(MaxOp{}, n);
    else
      f(SumOp{}, n);
  });
}

// A function object without its type.
template <class... Args>
class Callback {
 public:
  template <class F>
  KHD explicit Callback(const F& f)
      : f_(&f),
        call_([](const void* self, Args... args) { (*static_cast<const F*>(self))(args...); }) {}
  KHD void operator()(Args... args) const { call_(f_, args...); }

 private:
  const void* f_;
  void (*call_)(const void*, Args...);
};

// The tree of a leaf (team.cuh), for `width` interleaved leaves. It skips indices from `valid`: they would change only
// the sign of a zero, and the root gets +0.
template <class Op>
SLOW_PATH void tree_of_part(real* x, int valid, int width) {
  for (int half = kLeaf / 2; half >= 1; half /= 2) {
    if (half >= valid) continue;
    const real* const other = x + half * width;
    const int count = min(half, valid - half) * width;
    INDEPENDENT
    for (int i = 0; i < count; ++i) x[i] = Op::combine(x[i], other[i]);
  }
}

// The tree of a whole leaf.
template <class Op, KernelConfig V>
SLOW_PATH real tree_of_leaf(real* x) {
  return leaf_tree<Op, V>(x);
}

}  // namespace jitstep
