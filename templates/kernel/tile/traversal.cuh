// Kernels visit elements tile by tile, with a team of lanes per tile: on GPUs, and for strided tensors on the CPU.
// loop/traversal.cuh has the same functions.
#pragma once
#include "../leaf_sums.cuh"
#include "apply.cuh"

namespace jitstep {

struct TileTraversal {
  // A kernel's spans of entries. Tiles need none.
  struct Spans {
    KHD explicit Spans(const TensorRecord&) {}
  };

  // Runs before the items of a launch.
  template <class S>
  KHD static void begin() {
    fill_codebooks<S>();
  }

  // ---- the terms of one leaf of a pass

  // Elements from `position` on, of which `valid` exist.
  template <class S, int Pass>
  KHD static void take_elements(const Scope<S>& scope, int64 position, uint32 valid,
                                LeafTerms<S, Pass, 0>& x) {
    using Shape = typename LeafSums<S, Pass, 0>::Shape;
    const int64 end = position + (Shape::last_in_lockstep() - Shape::team() + 1) * kLeaf;
    const bool whole = is_dense_and_aligned(scope.step) && end <= scope.tensor.n;
    with_cursor({position, valid, whole}, [&](const auto& at) { take<S, Pass, 0>(scope, at, x); });
  }

  // Members of an entry, from `position` in it on.
  template <class S, int Pass, int LayoutNumber>
  KHD static void take_members(const Scope<S>& scope, int64 entry, int64 position, uint32 valid,
                               LeafTerms<S, Pass, LayoutNumber>& x) {
    const uint32 reduced = reduced_in<LayoutNumber>(scope.tensor.dims);
    take<S, Pass, LayoutNumber>(scope, Gather{scope.tensor, reduced, entry, position, valid}, x);
  }

  // Entries of a finer domain, for reduction R. `first` is the first entry.
  template <class S, int Pass, int LayoutNumber, class R>
  KHD static void take_entries(const Scope<S>& scope, int64 first, uint32 valid,
                               LeafTerms<S, Pass, LayoutNumber>& x) {
    using L = LeafSums<S, Pass, LayoutNumber>;
    using Shape = typename L::Shape;
    const auto* from = finer_entries<S, R>(scope) + first;
    UNROLL
    for (int row = 0; row < Shape::rows; ++row) {
      UNROLL
      for (int k = 0; k < Shape::vector; ++k) {
        const uint32 within = Shape::row_start(row) + k;
        typename FinerReduction<S, R>::Coefficients value{};
        if (within < valid) value = from[within];
        L::template take<R>(entry_terms<R>(value, scope.rule), x, row * Shape::vector + k,
                            within < valid);
      }
    }
  }

  // The terms of a tile's elements.
  template <class S, int Pass, int LayoutNumber, class Cursor>
  KHD static void take(const Scope<S>& scope, const Cursor& at,
                       LeafTerms<S, Pass, LayoutNumber>& x) {
    using L = LeafSums<S, Pass, LayoutNumber>;
    using Shape = typename L::Shape;
    Fragment<S, Shape> fragment;
    constexpr int kKnown = known_transforms<S, Pass>();
    load_fragment<S, Shape, kKnown>(scope, at, fragment);
    for_elements<S, Pass, Shape, kKnown>(
        scope, at, fragment,
        [&](int i, uint32 within, const auto& e, const auto& gradient, const auto& rule) {
          for_reductions<S>([&](auto r) {
            using R = decltype(r);
            if constexpr (L::Here::template takes<R> && !R::has_source)
              L::template take<R>(element_terms<S, R>(e, gradient, rule), x, i, at.has(within));
          });
        });
  }

  // ---- sums

  // The sum of a leaf's terms, of which the first `valid` exist.
  template <class S, class Op>
  KHD static real sum_of_leaf(real* x, int) {
    return leaf_tree<Op, S::config>(x);
  }

  // Sums `count` leaves from number `first`, if there is a way that is faster than one after another.
  template <class S, int Pass, int LayoutNumber>
  KHD static bool sum_leaves(const Scope<S>&, int64, int) {
    return false;
  }

  // ---- the last launch

  // Computes and stores a tile's elements, as a range or by its cursor.
  template <class S, int Pass>
  KHD static void apply_range(const Scope<S>&, const TilePosition&) {}
  template <class S, int Pass, class Cursor>
  KHD static void apply_tile(const Scope<S>& scope, const Cursor& at) {
    jitstep::apply_tile<S, Pass>(scope, at);
  }
};

}  // namespace jitstep
