// The terms and sums of one leaf, of elements or of entries of a finer domain.
#pragma once
#include "assembly.cuh"
#include "element.cuh"
#include "team.cuh"

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
      if constexpr (!R::Op::in_any_order) any = false;
  });
  return any;
}

template <class S, int Pass, int ReductionLayout>
struct LeafSums {
  using Shape = Tile<kLeaf, S::config, has_assembly<S, false>()>;
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
          valid ? terms[n] : static_cast<real>(R::Op::absent);
  }

  // Moves the terms of `count` elements of one thread to x[][first] and following. If the order does not matter, it
  // combines them with the terms there.
  KHD static void accumulate(const auto& terms, int count, auto& x, int first) {
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (Here::template takes<R> && !R::has_source) {
        constexpr int start = Here::template first_term<R>();
        for (int n = start; n < start + R::terms; ++n)
          // vectorized: the loop that accumulates terms
          for (int i = 0; i < count; ++i)
            x[n][first + i] = in_any_order<S, Pass, ReductionLayout>()
                                  ? R::Op::combine(x[n][first + i], terms[n][i])
                                  : terms[n][i];
      }
    });
  }

  // Sums the first `valid` terms of a leaf.
  KHD static void add(real (&x)[kTerms][Shape::fragment], int valid, double (&sums)[kTerms]) {
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (Here::template takes<R>) {
        constexpr int start = Here::template first_term<R>();
        UNROLL
        for (int n = 0; n < R::terms; ++n)
          sums[start + n] =
              S::Traversal::template sum_of_leaf<S, typename R::Op>(x[start + n], valid);
      }
    });
  }
};

template <class S, int Pass, int LayoutNumber>
using LeafTerms =
    real[LeafSums<S, Pass, LayoutNumber>::kTerms][LeafSums<S, Pass, LayoutNumber>::Shape::fragment];

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
