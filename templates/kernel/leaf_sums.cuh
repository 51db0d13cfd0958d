// The terms and sums of one leaf, of elements or of entries of a finer domain.
#pragma once
#include "loop.cuh"

namespace jitstep {

// One element's terms of a reduction. A separate template, because NVRTC looks up names in discarded branches of a
// lambda.
template <class S, class R>
KHD auto element_terms(const auto& e, const auto& gradient, const auto& rule) {
  using Body = typename R::Component::Body;
  constexpr Of<typename R::Coefficients> name;
  if constexpr (R::component == kGradientComponent)
    return Body::terms(name, e.g, gradient);
  else if constexpr (R::component == kRuleComponent)
    return Body::terms(name, e, rule);
  else
    return Body::terms(
        name, flush_subnormal(S::template slot<R::component - kFirstCodecComponent>(e).next));
}

// The terms of one entry of a finer domain.
template <class R>
KHD auto entry_terms(const auto& value, const auto& rule) {
  using Body = typename R::Component::Body;
  constexpr Of<typename R::Coefficients> name;
  if constexpr (R::component == kRuleComponent)
    return Body::terms(name, value, rule);
  else
    return Body::terms(name, value);
}

// Calls take(reduction, terms, index) for each reduction over elements of a pass, and for each of `count` consecutive
// elements. For one thread.
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
                       [&](int i, const auto& e, const auto& gradient, const auto& rule) {
                         for_reductions<S>([&](auto r) {
                           using R = decltype(r);
                           if constexpr (R::pass == Pass && !R::has_source)
                             take(r, element_terms<S, R>(e, gradient, rule), shift + i);
                         });
                       });
    done += end - begin;
  }
}

// The tree of a leaf (team.cuh) by one thread, for `width` interleaved leaves. It skips indices from `valid`: they
// would change only the sign of a zero, and the root gets +0.
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

// The sum of the first `valid` terms of a leaf.
template <class S, class Op>
KHD real sum_of_leaf(real* x, int valid) {
  if constexpr (loops<S>()) {
    if (valid == 0) return static_cast<real>(Op::absent);
    if (valid < kLeaf) {
      tree_of_part<Op>(x, valid, 1);
      return x[0];
    }
  }
  return leaf_tree<Op, S::config>(x);
}

// The source of a nested reduction: entries of a finer domain. For any two domains, the finer entries of one entry
// are consecutive, and those of the next entry follow.
template <class S, class R>
using FinerReduction = typename At<R::source, typename S::Reductions>::type;
template <class S, class R>
KHD auto* finer_entries(const Scope<S>& scope) {
  using From = FinerReduction<S, R>;
  return static_cast<const typename From::Coefficients*>(
             scope.args.reductions[R::source].coefficients) +
         scope.tensor.reduction_layouts[From::reduction_layout].first_entry;
}

// Whether a pass may combine the terms of a layout in any order.
template <class S, int Pass, int ReductionLayout>
constexpr bool in_any_order() {
  bool any = true;
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (PassReductions<S, Pass, ReductionLayout>::template takes<R>)
      if constexpr (!requires { R::Type::in_any_order; }) any = false;
  });
  return any;
}

template <class S, int Pass, int ReductionLayout>
struct LeafSums {
  using Shape = Tile<kLeaf, S::config>;
  using Here = PassReductions<S, Pass, ReductionLayout>;
  // At least 1, so that no array is empty: a pass may name a layout without reductions.
  static constexpr int kTerms = Here::terms() > 0 ? Here::terms() : 1;
  static constexpr int kChunk = S::config.leaves_per_item;
  using Shared = double[kChunk][kTerms];

  // Stores one element's terms of a reduction.
  template <class R>
  KHD static void take(const auto& terms, auto& x, int i, bool valid) {
    UNROLL
    for (int n = 0; n < R::terms; ++n)
      x[Here::template first_term<R>() + n][i] =
          valid ? terms[n] : static_cast<real>(R::Type::absent);
  }

  // The same for existing elements of one thread. If the order does not matter, it combines them with x[][i].
  template <class R>
  KHD static void accumulate(const auto& terms, auto& x, int i) {
    for (int n = 0; n < R::terms; ++n) {
      real& to = x[Here::template first_term<R>() + n][i];
      to = in_any_order<S, Pass, ReductionLayout>() ? R::Type::combine(to, terms[n]) : terms[n];
    }
  }

  template <class Cursor>
  KHD static void from_elements(const Scope<S>& scope, const Cursor& at,
                                real (&x)[kTerms][Shape::fragment]) {
    Fragment<S, Shape> fragment;
    load_fragment<S, Shape>(scope, at, fragment);
    for_elements<S, Pass, Shape>(
        scope, at, fragment,
        [&](int i, uint32 within, const auto& e, const auto& gradient, const auto& rule) {
          for_reductions<S>([&](auto r) {
            using R = decltype(r);
            if constexpr (Here::template takes<R> && !R::has_source)
              take<R>(element_terms<S, R>(e, gradient, rule), x, i, at.has(within));
          });
        });
  }

  // The same for `count` consecutive elements, to x[][first] and following, by one thread.
  SLOW_PATH void in_loops(const Scope<S>& scope, int64 element, int count, auto& x, int first) {
    for_terms<S, Pass>(scope, element, count, [&](auto r, const auto& terms, int i) {
      if constexpr (Here::template takes<decltype(r)>) take<decltype(r)>(terms, x, first + i, true);
    });
  }
  // The terms of entries of a finer domain instead of elements. `first` is the first entry.
  template <class R>
  KHD static void from_entries(const Scope<S>& scope, int64 first, uint32 valid,
                               real (&x)[kTerms][Shape::fragment]) {
    const auto* from = finer_entries<S, R>(scope) + first;
    UNROLL
    for (int row = 0; row < Shape::rows; ++row) {
      UNROLL
      for (int k = 0; k < Shape::vector; ++k) {
        const uint32 within = Shape::row_start(row) + k;
        typename FinerReduction<S, R>::Coefficients value{};
        if (within < valid) value = from[within];
        take<R>(entry_terms<R>(value, scope.rule), x, row * Shape::vector + k, within < valid);
      }
    }
  }
  // The same by one thread, for existing entries only.
  template <class R>
  KHD static void from_entries_in_loops(const Scope<S>& scope, int64 first, int valid,
                                        real (&x)[kTerms][Shape::fragment]) {
    const auto* from = finer_entries<S, R>(scope) + first;
    for (int i = 0; i < valid; ++i) take<R>(entry_terms<R>(from[i], scope.rule), x, i, true);
  }

  // Sums the first `valid` terms of a leaf.
  KHD static void add(real (&x)[kTerms][Shape::fragment], int valid, double (&sums)[kTerms]) {
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (Here::template takes<R>) {
        constexpr int start = Here::template first_term<R>();
        UNROLL
        for (int n = 0; n < R::terms; ++n)
          sums[start + n] = sum_of_leaf<S, typename R::Type>(x[start + n], valid);
      }
    });
  }
};

// Writes one partial sum of a layout, for all its reductions.
template <class S, int Pass, int LayoutNumber>
KHD void store_partial(const Scope<S>& scope, int64 partial, const auto& sums) {
  using Here = PassReductions<S, Pass, LayoutNumber>;
  const ReductionLayout& reduction_layout = scope.tensor.reduction_layouts[LayoutNumber];
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (Here::template takes<R>) {
      double* to = scope.args.reductions[R::number].partials +
                   (reduction_layout.first_partial + partial) * R::terms;
      UNROLL
      for (int n = 0; n < R::terms; ++n) to[n] = sums[Here::template first_term<R>() + n];
    }
  });
}

}  // namespace jitstep
