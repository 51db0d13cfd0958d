// First half of a pass: sums consecutive leaves to partial sums.
#pragma once
#include "entry_maxima.cuh"

namespace jitstep {

template <class S, int Pass, int SpaceNumber>
using Terms =
    real[LeafSums<S, Pass, SpaceNumber>::kTerms][LeafSums<S, Pass, SpaceNumber>::Shape::fragment];

// The terms of the elements of leaf `unit` of the tensor. Returns their number, as take_entries() does. A single
// thread writes no other terms.
template <class S, int Pass>
KHD int take_elements(const Scope<S>& scope, int64 unit, Terms<S, Pass, 0>& x) {
  using L = LeafSums<S, Pass, 0>;
  using Shape = typename L::Shape;
  const int64 position = unit * kLeaf, left = scope.tensor.n - position;
  const auto valid = static_cast<uint32>(left < 0 ? 0 : min<int64>(left, kLeaf));
  if constexpr (loops<S>()) {
    L::in_loops(scope, position, static_cast<int>(valid), x, 0);
  } else {
    const int64 end = position + (Shape::last_in_lockstep() - Shape::team() + 1) * kLeaf;
    const bool whole = is_dense_and_aligned(scope.step) && end <= scope.tensor.n;
    with_cursor({position, valid, whole}, [&](const auto& at) { L::from_elements(scope, at, x); });
  }
  return static_cast<int>(valid);
}

// The terms of leaf `unit` of another layout. Units number all leaves of entry 0, then of entry 1, ...
template <class S, int Pass, int SpaceNumber>
KHD int take_entries(const Scope<S>& scope, int64 unit, Terms<S, Pass, SpaceNumber>& x) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  const Space& space = scope.tensor.spaces[SpaceNumber];
  const int64 entry = unit / space.leaves, position = unit % space.leaves * kLeaf;
  const int64 left = entry < space.entries ? space.members - position : 0;
  const auto valid = static_cast<uint32>(left < 0 ? 0 : min<int64>(left, kLeaf));
  for_reductions<S>([&](auto r) {
    using R = decltype(r);
    if constexpr (!(L::Here::template takes<R> && R::over))
      return;
    else if constexpr (loops<S>())
      L::template from_entries_in_loops<R>(scope, entry * space.members + position,
                                           static_cast<int>(valid), x);
    else
      L::template from_entries<R>(scope, entry * space.members + position, valid, x);
  });
  if constexpr (SpaceNumber < kOverSpace) {
    const uint32 reduced = reduced_in<SpaceNumber>(scope.tensor.dims);
    const Gather at{scope.tensor, reduced, entry, position, valid};
    if constexpr (loops<S>())
      take_members<S, Pass, SpaceNumber>(scope, at, x);
    else
      L::from_elements(scope, at, x);
  }
  return static_cast<int>(valid);
}

template <class S, int Pass, int SpaceNumber>
KHD void sum_leaf(const Scope<S>& scope, int64 unit,
                  double (&sums)[LeafSums<S, Pass, SpaceNumber>::kTerms]) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  Terms<S, Pass, SpaceNumber> x;
  int valid;
  if constexpr (SpaceNumber == 0)
    valid = take_elements<S, Pass>(scope, unit, x);
  else
    valid = take_entries<S, Pass, SpaceNumber>(scope, unit, x);
  L::add(x, valid, sums);
}

// Combines groups of leaf sums to partial sums, and writes these for each reduction.
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
    store_partial<S, Pass, SpaceNumber>(scope, first + j, leaf[j << space.fold]);
}

// One thread's item. Leaves are processed in memory order if possible, otherwise one by one.
template <class S, int Pass, int SpaceNumber>
KHD void partials_of_entries(const Scope<S>& scope, const Item& item) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  const Space& space = scope.tensor.spaces[SpaceNumber];
  const int64 units = space.entries * space.leaves;
  const int count = static_cast<int>(min<int64>(units - item.first, kLeaf));
  if constexpr (SpaceNumber < kOverSpace && loops<S>()) {
    if constexpr (joint_maxima<S, Pass>() >> SpaceNumber & 1u)
      if (take_maxima<S, Pass>(scope, SpaceNumber, item.first)) return;
    if constexpr (sums_tiles<S, Pass, SpaceNumber>())
      if (sum_tiles<S, Pass>(scope, SpaceNumber, item.first)) return;
    if (sum_in_memory_order<S, Pass, SpaceNumber>(scope, item.first, count)) return;
  }
  for (int64 unit = item.first; unit < item.first + count; ++unit) {
    double sums[L::kTerms];
    sum_leaf<S, Pass, SpaceNumber>(scope, unit, sums);
    store_partial<S, Pass, SpaceNumber>(scope, unit, sums);
  }
}

template <class S, int Pass, int SpaceNumber>
KHD void partials_of_item(const Args& args, const Item& item, Preparation<S>& preparation) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  const Scope<S> scope = scope_of<S, Pass>(args, item.tensor, preparation.of(args, item.tensor));
  if constexpr (S::variant.threads == 1 && SpaceNumber != 0)
    return partials_of_entries<S, Pass, SpaceNumber>(scope, item);
  auto& leaf = *shared<typename L::Shared, 1 + SpaceNumber>();
  const Space& space = scope.tensor.spaces[SpaceNumber];
  // Leaves past the last are never read: the leaves of a partial sum are all before or all after the end.
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
