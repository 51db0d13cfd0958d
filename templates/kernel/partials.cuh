// First half of a pass. It adds consecutive leaves to partial sums.
#pragma once
#include "leaf_sums.cuh"

namespace jitstep {

// The terms of the elements of leaf `leaf` of the tensor. Returns how many of them exist.
template <class S, int Pass>
KHD int take_elements(const Scope<S>& scope, int64 leaf, LeafTerms<S, Pass, 0>& x) {
  const int64 position = leaf * kLeaf, left = scope.tensor.n - position;
  const auto valid = static_cast<uint32>(left < 0 ? 0 : min<int64>(left, kLeaf));
  S::Traversal::template take_elements<S, Pass>(scope, position, valid, x);
  return static_cast<int>(valid);
}

// The same for leaf `leaf` of another layout. All leaves of entry 0 are numbered first, then those of entry 1, ...
template <class S, int Pass, int LayoutNumber>
KHD int take_entries(const Scope<S>& scope, int64 leaf, LeafTerms<S, Pass, LayoutNumber>& x) {
  using L = LeafSums<S, Pass, LayoutNumber>;
  using Traversal = typename S::Traversal;
  const ReductionLayout& reduction_layout = scope.tensor.reduction_layouts[LayoutNumber];
  const int64 entry = leaf / reduction_layout.leaves,
              position = leaf % reduction_layout.leaves * kLeaf;
  const int64 left = entry < reduction_layout.entries ? reduction_layout.members - position : 0;
  const auto valid = static_cast<uint32>(left < 0 ? 0 : min<int64>(left, kLeaf));
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (L::Here::template takes<R> && R::has_source)
      Traversal::template take_entries<S, Pass, LayoutNumber, R>(
          scope, entry * reduction_layout.members + position, valid, x);
  });
  if constexpr (LayoutNumber < kNestedLayout)
    Traversal::template take_members<S, Pass, LayoutNumber>(scope, entry, position, valid, x);
  return static_cast<int>(valid);
}

template <class S, int Pass, int LayoutNumber>
KHD void sum_leaf(const Scope<S>& scope, int64 leaf,
                  double (&sums)[LeafSums<S, Pass, LayoutNumber>::kTerms]) {
  using L = LeafSums<S, Pass, LayoutNumber>;
  LeafTerms<S, Pass, LayoutNumber> x;
  int valid;
  if constexpr (LayoutNumber == 0)
    valid = take_elements<S, Pass>(scope, leaf, x);
  else
    valid = take_entries<S, Pass, LayoutNumber>(scope, leaf, x);
  L::add(x, valid, sums);
}

// Combines groups of leaf sums to partial sums, and writes the partial sums of each reduction.
template <class S, int Pass, int LayoutNumber>
KHD void fold_leaves(const Scope<S>& scope, const Item& item,
                     typename LeafSums<S, Pass, LayoutNumber>::Shared& leaf) {
  using L = LeafSums<S, Pass, LayoutNumber>;
  const ReductionLayout& reduction_layout = scope.tensor.reduction_layouts[LayoutNumber];
  for (int half = 1; half < 1 << reduction_layout.log2_leaves; half *= 2) {
    for (int j = thread_index(); j < L::kChunk / (2 * half); j += S::config.threads)
      for_reductions<S>([&](auto r) {
        using R = decltype(r);
        if constexpr (L::Here::template takes<R>) {
          constexpr int start = L::Here::template first_term<R>();
          UNROLL
          for (int n = start; n < start + R::terms; ++n)
            leaf[2 * j * half][n] =
                R::Op::combine(leaf[2 * j * half][n], leaf[(2 * j + 1) * half][n]);
        }
      });
    block_barrier();
  }
  const int64 first = item.first >> reduction_layout.log2_leaves;
  const int64 count =
      reduction_layout.entries * (reduction_layout.leaves >> reduction_layout.log2_leaves) - first;
  for (int j = thread_index(); j < L::kChunk >> reduction_layout.log2_leaves && j < count;
       j += S::config.threads)
    store_partial<S, Pass, LayoutNumber>(scope, first + j, leaf[j << reduction_layout.log2_leaves]);
}

// One thread's item. It processes leaves together if possible, otherwise one by one.
template <class S, int Pass, int LayoutNumber>
KHD void partials_of_entries(const Scope<S>& scope, const Item& item) {
  using L = LeafSums<S, Pass, LayoutNumber>;
  const ReductionLayout& reduction_layout = scope.tensor.reduction_layouts[LayoutNumber];
  const int64 leaves = reduction_layout.entries * reduction_layout.leaves;
  const int count = static_cast<int>(min<int64>(leaves - item.first, kLeaf));
  if constexpr (LayoutNumber < kNestedLayout)
    if (S::Traversal::template sum_leaves<S, Pass, LayoutNumber>(scope, item.first, count)) return;
  for (int64 leaf = item.first; leaf < item.first + count; ++leaf) {
    double sums[L::kTerms];
    sum_leaf<S, Pass, LayoutNumber>(scope, leaf, sums);
    store_partial<S, Pass, LayoutNumber>(scope, leaf, sums);
  }
}

template <class S, int Pass, int LayoutNumber>
KHD void partials_of_item(const Scope<S>& scope, const Item& item) {
  using L = LeafSums<S, Pass, LayoutNumber>;
  if constexpr (S::config.threads == 1 && LayoutNumber != 0)
    return partials_of_entries<S, Pass, LayoutNumber>(scope, item);
  auto& leaf = *shared<typename L::Shared, 1 + LayoutNumber>();
  const ReductionLayout& reduction_layout = scope.tensor.reduction_layouts[LayoutNumber];
  // No later code reads a leaf past the last one: the leaves of a partial sum are all before or all after the end.
  const int64 units =
      min<int64>(reduction_layout.entries * reduction_layout.leaves - item.first, L::kChunk);
  block_barrier();
  ONE_BY_ONE
  for (int start = 0; start < units; start += L::Shape::teams) {
    const int slot = start + static_cast<int>(L::Shape::team());
    double sums[L::kTerms];
    sum_leaf<S, Pass, LayoutNumber>(scope, item.first + slot, sums);
    if (L::Shape::lane() == 0 && slot < L::kChunk)
      for (int n = 0; n < L::kTerms; ++n) leaf[slot][n] = sums[n];
  }
  block_barrier();
  fold_leaves<S, Pass, LayoutNumber>(scope, item, leaf);
}

template <class S, int Pass>
KHD void partials(const Args& args, Range range) {
  S::Traversal::template begin<S>();
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> scope = scope_of<S, Pass>(args, item.tensor, preparation.of(args, item.tensor));
    static_for<kReductionLayouts>([&](auto reduction_layout) {
      if constexpr (PassReductions<S, Pass, decltype(reduction_layout)::value>::terms() > 0)
        if (item.reduction_layout == decltype(reduction_layout)::value)
          partials_of_item<S, Pass, decltype(reduction_layout)::value>(scope, item);
    });
  }
}

}  // namespace jitstep
