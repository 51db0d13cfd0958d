// First half of a pass: the sums of runs of leaves, one partial for each run.
#pragma once
#include "loop.cuh"

namespace jitstep {

// One element's terms of a reduction. (A template of its own: NVRTC looks up names of the branches
// not taken when they stand in a lambda.)
template <class S, class R>
KHD auto element_terms(const auto& e, const auto& gradient, const auto& rule) {
  using Body = typename R::Part::Body;
  constexpr Of<typename R::Coefficients> name;
  if constexpr (R::part == kGradientPart)
    return Body::terms(name, e.g, gradient);
  else if constexpr (R::part == kRulePart)
    return Body::terms(name, e, rule);
  else
    return Body::terms(name, flush_subnormal(S::template slot<R::part - kFirstCodecPart>(e).next));
}

template <class S, int Pass, int Space>
struct LeafSums {
  using Shape = Tile<kLeaf, S::variant>;
  using Here = Walk<S, Pass, Space>;
  static constexpr int kTerms = Here::terms();
  static constexpr int kChunk = S::variant.chunk;
  using Shared = double[kChunk][kTerms];

  // What a reduction takes from one element.
  template <class R>
  KHD static void take(const auto& terms, real (&x)[kTerms][Shape::fragment], int i, bool valid) {
    UNROLL
    for (int n = 0; n < R::terms; ++n)
      x[Here::template first_term<R>() + n][i] =
          valid ? terms[n] : static_cast<real>(R::Type::absent);
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
            if constexpr (Here::template takes<R> && !R::over)
              take<R>(element_terms<S, R>(e, gradient, rule), x, i, at.has(within));
          });
        });
  }

  // The same of elements position to position + valid - 1, by one thread.
  KHD static void in_loops(const Scope<S>& scope, int64 position, int valid,
                           real (&x)[kTerms][Shape::fragment]) {
    for (int start = 0; start < valid; start += kLeaf)
      for_run<S, Pass>(scope, position + start, min(valid - start, kLeaf),
                       [&](int i, const auto& e, const auto& gradient, const auto& rule) {
                         for_reductions<S>([&](auto r) {
                           using R = decltype(r);
                           if constexpr (Here::template takes<R> && !R::over)
                             take<R>(element_terms<S, R>(e, gradient, rule), x, start + i, true);
                         });
                       });
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (Here::template takes<R> && !R::over)
        for (int i = valid; i < kLeaf; ++i) take<R>(Reals<R::terms>{}, x, i, false);
    });
  }

  // Terms over the entries of a finer domain instead of elements.
  template <class R>
  KHD static void from_entries(const Scope<S>& scope, int64 entry, int64 position, uint32 valid,
                               real (&x)[kTerms][Shape::fragment]) {
    using From = typename At<R::source, typename S::Reductions>::type;
    using Source = typename From::Coefficients;
    const int dims = scope.tensor.dims;
    const auto* from = static_cast<const Source*>(scope.args.reductions[R::source].coefficients) +
                       scope.tensor.spaces[From::space].first_entry;
    UNROLL
    for (int row = 0; row < Shape::rows; ++row) {
      UNROLL
      for (int k = 0; k < Shape::vector; ++k) {
        const uint32 within = Shape::row_start(row) + k;
        Source value{};
        if (within < valid)
          value = from[finer_entry(scope.tensor, R::Domain::reduced(dims),
                                   From::Domain::reduced(dims), entry, position + within)];
        take<R>(S::Rule::Body::terms(Of<typename R::Coefficients>{}, value, scope.rule), x,
                row * Shape::vector + k, within < valid);
      }
    }
  }
};

// The elements of leaf `unit` of the whole tensor.
template <class S, int Pass>
KHD void take_elements(
    const Scope<S>& scope, int64 unit,
    real (&x)[LeafSums<S, Pass, 0>::kTerms][LeafSums<S, Pass, 0>::Shape::fragment]) {
  using L = LeafSums<S, Pass, 0>;
  using Shape = typename L::Shape;
  const int64 position = unit * kLeaf, left = scope.tensor.n - position;
  const auto valid = static_cast<uint32>(left < 0 ? 0 : min<int64>(left, kLeaf));
  if constexpr (loops<S, Pass>()) {
    L::in_loops(scope, position, static_cast<int>(valid), x);
  } else {
    const int64 end = position + (Shape::last_of_warp() - Shape::team() + 1) * kLeaf;
    const bool whole = is_dense_and_aligned(scope.step) && end <= scope.tensor.n;
    with_cursor({position, valid, whole}, [&](const auto& at) { L::from_elements(scope, at, x); });
  }
}

// The leaf `unit` of another space: units count leaf after leaf, entry after entry.
template <class S, int Pass, int SpaceNumber>
KHD void take_entries(const Scope<S>& scope, int64 unit,
                      real (&x)[LeafSums<S, Pass, SpaceNumber>::kTerms]
                               [LeafSums<S, Pass, SpaceNumber>::Shape::fragment]) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  const Space& space = scope.tensor.spaces[SpaceNumber];
  const int64 entry = unit / space.leaves, position = unit % space.leaves * kLeaf;
  const int64 left = entry < space.entries ? space.members - position : 0;
  const auto valid = static_cast<uint32>(left < 0 ? 0 : min<int64>(left, kLeaf));
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (L::Here::template takes<R> && R::over)
      L::template from_entries<R>(scope, entry, position, valid, x);
  });
  if constexpr (SpaceNumber < kOverSpace) {
    const uint32 reduced = reduced_in<SpaceNumber>(scope.tensor.dims);
    L::from_elements(scope, Gather{scope.tensor, reduced, entry, position, valid}, x);
  }
}

template <class S, int Pass, int SpaceNumber>
KHD void sum_leaf(const Scope<S>& scope, int64 unit,
                  double (&sums)[LeafSums<S, Pass, SpaceNumber>::kTerms]) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  real x[L::kTerms][L::Shape::fragment];
  if constexpr (SpaceNumber == 0)
    take_elements<S, Pass>(scope, unit, x);
  else
    take_entries<S, Pass, SpaceNumber>(scope, unit, x);
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (L::Here::template takes<R>) {
      constexpr int start = L::Here::template first_term<R>();
      UNROLL
      for (int n = 0; n < R::terms; ++n)
        sums[start + n] = leaf_tree<typename R::Type, S::variant>(x[start + n]);
    }
  });
}

// Folds runs of 2^fold leaf sums and writes each reduction's partials.
template <class S, int Pass, int SpaceNumber>
KHD void fold_chunk(const Scope<S>& scope, const Item& item,
                    typename LeafSums<S, Pass, SpaceNumber>::Shared& leaf) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  const Space& space = scope.tensor.spaces[SpaceNumber];
  for (int half = 1; half < 1 << space.fold; half *= 2) {
    for (int j = thread_index(); j < L::kChunk / (2 * half); j += S::variant.threads)
      for_reductions<S>([&](auto r) {
        using R = decltype(r);
        if constexpr (L::Here::template takes<R>) {
          constexpr int start = L::Here::template first_term<R>();
          UNROLL
          for (int n = start; n < start + R::terms; ++n)
            leaf[2 * j * half][n] =
                R::Type::combine(leaf[2 * j * half][n], leaf[(2 * j + 1) * half][n]);
        }
      });
    block_barrier();
  }
  const int64 first = item.first >> space.fold;
  const int64 count = space.entries * (space.leaves >> space.fold) - first;
  for (int j = thread_index(); j < L::kChunk >> space.fold && j < count; j += S::variant.threads)
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (L::Here::template takes<R>) {
        double* to = scope.args.reductions[R::number].partials +
                     (space.first_partial + first + j) * R::terms;
        UNROLL
        for (int n = 0; n < R::terms; ++n)
          to[n] = leaf[j << space.fold][L::Here::template first_term<R>() + n];
      }
    });
}

template <class S, int Pass, int SpaceNumber>
KHD void partials_of_item(const Args& args, const Item& item, Preparation<S>& preparation) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  const Scope<S> scope = scope_of<S, Pass>(args, item.tensor, preparation.of(args, item.tensor));
  auto& leaf = *shared<typename L::Shared, 1 + SpaceNumber>();
  const Space& space = scope.tensor.spaces[SpaceNumber];
  // Leaves past the last are never read: a run of 2^fold of them lies before it or behind it.
  const int64 units = min<int64>(space.entries * space.leaves - item.first, L::kChunk);
  block_barrier();
  ONE_BY_ONE
  for (int start = 0; start < units; start += L::Shape::teams) {
    const int slot = start + static_cast<int>(L::Shape::team());
    double sums[L::kTerms];
    sum_leaf<S, Pass, SpaceNumber>(scope, item.first + slot, sums);
    if (L::Shape::lane() == 0 && slot < L::kChunk)
      for (int n = 0; n < L::kTerms; ++n) leaf[slot][n] = sums[n];
  }
  block_barrier();
  fold_chunk<S, Pass, SpaceNumber>(scope, item, leaf);
}

template <class S, int Pass>
KHD void partials(const Args& args, Range range) {
  fill_books<S>();
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    static_for<kSpaces>([&](auto space) {
      if constexpr (Walk<S, Pass, decltype(space)::value>::terms() > 0)
        if (item.space == decltype(space)::value)
          partials_of_item<S, Pass, decltype(space)::value>(args, item, preparation);
    });
  }
}

}  // namespace jitstep
