// Kernels visit elements in loops, one thread per item: for dense tensors on the CPU. tile/traversal.cuh explains the
// functions.
#pragma once
#include "../tile/traversal.cuh"
#include "apply.cuh"
#include "entry_maxima.cuh"

namespace jitstep {

struct LoopTraversal {
  using Spans = EntrySpans;

  template <class S>
  KHD static void begin() {}

  // ---- the terms of one leaf of a pass. No function writes terms of missing elements.

  template <class S, int Pass>
  KHD static void take_elements(const Scope<S>& scope, int64 position, uint32 valid,
                                LeafTerms<S, Pass, 0>& x) {
    take_elements_in_loops<S, Pass>(scope, position, static_cast<int>(valid), x);
  }
  template <class S, int Pass, int LayoutNumber>
  KHD static void take_members(const Scope<S>& scope, int64 entry, int64 position, uint32 valid,
                               LeafTerms<S, Pass, LayoutNumber>& x) {
    const uint32 reduced = reduced_in<LayoutNumber>(scope.tensor.dims);
    jitstep::take_members<S, Pass, LayoutNumber>(
        scope, Gather{scope.tensor, reduced, entry, position, valid}, x);
  }
  template <class S, int Pass, int LayoutNumber, class R>
  KHD static void take_entries(const Scope<S>& scope, int64 first, uint32 valid,
                               LeafTerms<S, Pass, LayoutNumber>& x) {
    using L = LeafSums<S, Pass, LayoutNumber>;
    const auto* from = finer_entries<S, R>(scope) + first;
    for (int i = 0; i < static_cast<int>(valid); ++i)
      L::template take<R>(entry_terms<R>(from[i], scope.rule), x, i, true);
  }

  // ---- sums

  template <class S, class Op>
  KHD static real sum_of_leaf(real* x, int valid) {
    if (valid == 0) return static_cast<real>(Op::absent);
    if (valid < kLeaf) {
      tree_of_part<Op>(x, valid, 1);
      return x[0];
    }
    return tree_of_leaf<Op, S::config>(x);
  }
  template <class S, int Pass, int LayoutNumber>
  KHD static bool sum_leaves(const Scope<S>& scope, int64 first, int count) {
    if constexpr (joint_maxima<S, Pass>() >> LayoutNumber & 1u)
      if (take_maxima<S, Pass>(scope, LayoutNumber, first)) return true;
    if constexpr (sums_tiles<S, Pass, LayoutNumber>())
      if (sum_tiles<S, Pass>(scope, LayoutNumber, first)) return true;
    return sum_in_memory_order<S, Pass, LayoutNumber>(scope, first, count);
  }

  // ---- the last launch

  template <class S, int Pass>
  KHD static void apply_range(const Scope<S>& scope, const TilePosition& at) {
    apply_loop<S, Pass, ApplyTile<S>::size()>(scope, at.base, static_cast<int>(at.valid));
  }
  template <class S, int Pass, class Cursor>
  KHD static void apply_tile(const Scope<S>&, const Cursor&) {}
};

}  // namespace jitstep
