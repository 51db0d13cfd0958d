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

// The terms of `count` consecutive elements, to x[][first] and following.
template <class S, int Pass, int LayoutNumber>
SLOW_PATH void take_in_loops(const Scope<S>& scope, int64 element, int count, auto& x, int first) {
  using L = LeafSums<S, Pass, LayoutNumber>;
  for_terms<S, Pass>(scope, element, count, [&](auto r, const auto& terms, int i) {
    using R = decltype(r);
    if constexpr (L::Here::template takes<R>) L::template take<R>(terms, x, first + i, true);
  });
}

// The tree of a leaf (team.cuh), for `width` interleaved leaves. It skips indices from `valid`: they would change only
// the sign of a zero, and the root gets +0.
template <class Op>
KHD void tree_of_part(real* x, int valid, int width) {
  for (int half = kLeaf / 2; half >= 1; half /= 2) {
    if (half >= valid) continue;
    const real* const other = x + half * width;
    const int count = min(half, valid - half) * width;
    INDEPENDENT
    for (int i = 0; i < count; ++i) x[i] = Op::combine(x[i], other[i]);
  }
}

}  // namespace jitstep
