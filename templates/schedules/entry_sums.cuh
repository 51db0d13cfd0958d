// One thread's sums over the entries of a domain. Elements of one entry that follow one another in memory are
// walked in runs. Where entries lie side by side, as columns do, a run crosses as many of them as it has elements,
// and all their leaves grow together. Where both are short, blocks of them are walked (entry_blocks.cuh).
#pragma once
#include "entry_blocks.cuh"

namespace jitstep {

// ---- members that follow one another -----------------------------------------------------------

// As many members of an entry as follow one another in memory.
KHD int64 length_of_members(const TensorRecord& t, uint32 reduced) {
  int64 length = 1;
  for (int d = t.dims - 1; d >= 0; --d) {
    if (t.dim[d].size == 1) continue;
    if (!(reduced >> d & 1u) || t.dim[d].stride != length) break;
    length *= t.dim[d].size;
  }
  return length;
}

inline constexpr int64 kWorthARun = 16;  // elements, below which they are taken one by one

template <class S, int Pass, int SpaceNumber>
SLOW_PATH void take_one_by_one(const Scope<S>& scope, const Gather& at,
                               real (&x)[LeafSums<S, Pass, SpaceNumber>::kTerms][kLeaf]) {
  LeafSums<S, Pass, SpaceNumber>::from_elements(scope, at, x);
}

// The members of one entry that are one leaf of it.
template <class S, int Pass, int SpaceNumber>
KHD void take_members(const Scope<S>& scope, const Gather& at,
                      real (&x)[LeafSums<S, Pass, SpaceNumber>::kTerms][kLeaf]) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  const int64 piece = length_of_members(scope.tensor, at.reduced);
  const int valid = static_cast<int>(at.valid);
  if (piece < min<int64>(kWorthARun, valid))
    return take_one_by_one<S, Pass, SpaceNumber>(scope, at, x);
  for (int done = 0; done < valid;) {
    const int64 left = piece - (at.position + done) % piece;
    const int count = static_cast<int>(min<int64>(valid - done, left));
    L::in_loops(scope, at.element(static_cast<uint32>(done)), count, x, done);
    done += count;
  }
}

// ---- entries that lie side by side -------------------------------------------------------------

// How many entries at a time follow one another in memory: 1, unless it is the last dimension between entries that
// varies fastest.
KHD int64 side_by_side(const TensorRecord& t, uint32 reduced) {
  for (int d = t.dims - 1; d >= 0; --d)
    if (!(reduced >> d & 1u) && t.dim[d].size > 1) return t.dim[d].stride == 1 ? t.dim[d].size : 1;
  return 1;
}

// The leaves of entries side by side, which grow together. Members come with the bits of their place in the leaf
// reversed: 0, 128, 64, 192, ..., so that of the tree, which adds places i and i + s, one node of each level waits for
// its other half. Places that are not there are left out: +0 changes nothing but the sign of a zero, and the root
// gets +0.
template <class S, int Pass, int SpaceNumber, int Width = kLeaf>
class GrowingLeaves {
 public:
  using L = LeafSums<S, Pass, SpaceNumber>;
  using Terms = real[L::kTerms][Width];

  // The sums of places 0 to valid - 1 of `width` entries; take(place, to) lets the first `width` of `to` grow (LeafSums).
  template <class F>
  KHD const Terms& grown(int valid, int width, F&& take) {
    if constexpr (in_any_order<S, Pass, SpaceNumber>()) {
      for_reductions<S>([&](auto r) { clear<decltype(r)>(width); });
      for (int place = 0; place < valid; ++place) take(place, node_);
      return node_;
    }
    for (uint32 order = 0; order < kLeaf; ++order) {
      const int place = reversed(order);
      bool there = place < valid;
      if (there) take(place, node_);
      int level = 0;
      for (; order >> level & 1u; ++level) there = join(level, there, width);
      if (level == kLeafLevels) break;
      waits_[level].there = there;
      if (there) copy(node_, waits_[level].node, width);
    }
    return node_;
  }

 private:
  struct Waiting {
    Terms node;
    bool there;
  };

  template <class R>
  KHD void clear(int width) {
    if constexpr (L::Here::template takes<R>)
      for (int n = 0; n < R::terms; ++n)
        for (int i = 0; i < width; ++i)
          node_[L::Here::template first_term<R>() + n][i] = static_cast<real>(R::Type::absent);
  }
  KHD static int reversed(uint32 order) {
    int place = 0;
    for (int bit = 0; bit < kLeafLevels; ++bit)
      place = place << 1 | static_cast<int>(order >> bit & 1u);
    return place;
  }
  KHD static void copy(const Terms& from, Terms& to, int width) {
    for (int n = 0; n < L::kTerms; ++n)
      for (int i = 0; i < width; ++i) to[n][i] = from[n][i];
  }
  // Makes the node one of its other half, which came before, and itself, where it is there.
  KHD bool join(int level, bool there, int width) {
    const Waiting& other = waits_[level];
    if (!other.there) return there;
    if (there)
      for_reductions<S>([&](auto r) {
        using R = decltype(r);
        if constexpr (L::Here::template takes<R>)
          combine<typename R::Type, L::Here::template first_term<R>(), R::terms>(other.node, width);
      });
    else
      copy(other.node, node_, width);
    return true;
  }
  template <class Op, int First, int Count>
  KHD void combine(const Terms& other, int width) {
    for (int n = First; n < First + Count; ++n)
      for (int i = 0; i < width; ++i) node_[n][i] = Op::combine(other[n][i], node_[n][i]);
  }

  Terms node_;
  Waiting waits_[kLeafLevels];
};

// Where the members of a leaf lie, at equal distances if it is so.
class Members {
 public:
  KHD explicit Members(const Gather& at) : at_(at) {
    const TensorRecord& t = at.tensor;
    int d = t.dims - 1;
    while (d > 0 && (!(at.reduced >> d & 1u) || t.dim[d].size == 1)) --d;
    first_ = at.element(0);
    stride_ = t.dim[d].stride;
    even_ = at.position % t.dim[d].size + at.valid <= t.dim[d].size;
  }
  KHD int64 operator[](int place) const {
    return even_ ? first_ + place * stride_ : at_.element(static_cast<uint32>(place));
  }

 private:
  const Gather& at_;
  int64 first_, stride_;
  bool even_;
};

// sums[term][i]: of leaf `leaf` of entry `entry` + i.
template <class S, int Pass, int SpaceNumber>
KHD void store_side_by_side(const Scope<S>& scope, int64 leaf, int64 entry, int width,
                            const auto& sums) {
  constexpr int kTerms = LeafSums<S, Pass, SpaceNumber>::kTerms;
  for (int i = 0; i < width; ++i) {
    double sum[kTerms];
    for (int n = 0; n < kTerms; ++n) sum[n] = sums[n][i];
    store_partial<S, Pass, SpaceNumber>(
        scope, (entry + i) * scope.tensor.spaces[SpaceNumber].leaves + leaf, sum);
  }
}

// What elements that follow one another, of `width` entries from the first on, let their leaves grow by.
template <class S, int Pass, int SpaceNumber>
SLOW_PATH void grow_in_loops(const Scope<S>& scope, int64 element, int width, auto& to) {
  using L = LeafSums<S, Pass, SpaceNumber>;
  for_terms<S, Pass>(scope, element, width, [&](auto r, const auto& terms, int i) {
    using R = decltype(r);
    if constexpr (L::Here::template takes<R>) L::template grow<R>(terms, to, i);
  });
}

// Leaf `leaf` of `width` entries that lie side by side.
template <class S, int Pass, int SpaceNumber>
KHD void sum_leaves(const Scope<S>& scope, int64 leaf, int64 entry, int width) {
  using Leaves = GrowingLeaves<S, Pass, SpaceNumber>;
  using L = typename Leaves::L;
  const Space& space = scope.tensor.spaces[SpaceNumber];
  const int64 position = leaf * kLeaf;
  const int valid = static_cast<int>(min<int64>(space.members - position, kLeaf));
  const Gather at{scope.tensor, reduced_in<SpaceNumber>(scope.tensor.dims), entry, position,
                  static_cast<uint32>(valid)};
  const Members members(at);
  Leaves leaves;
  const auto& sums = leaves.grown(valid, width, [&](int place, auto& to) {
    grow_in_loops<S, Pass, SpaceNumber>(scope, members[place], width, to);
  });
  store_side_by_side<S, Pass, SpaceNumber>(scope, leaf, entry, width, sums);
}

// `count` leaves from number `first` on; those of one place in their entries follow one another. group: as
// side_by_side() says.
template <class S, int Pass, int SpaceNumber>
KHD void sum_side_by_side(const Scope<S>& scope, int64 group, int64 first, int count) {
  const int64 entries = scope.tensor.spaces[SpaceNumber].entries;
  for (int64 unit = first; unit < first + count;) {
    const int64 entry = unit % entries, left = first + count - unit;
    const int width = static_cast<int>(min<int64>(left, group - entry % group));
    sum_leaves<S, Pass, SpaceNumber>(scope, unit / entries, entry, width);
    unit += width;
  }
}

// ---- whichever way is the fastest ---------------------------------------------------------------

// Whether the sums of `count` leaves were taken, which are numbered from `first` on as their elements lie in memory;
// otherwise leaves are to be taken one by one, entry after entry.
template <class S, int Pass, int SpaceNumber>
KHD bool sum_in_memory_order(const Scope<S>& scope, int64 first, int count) {
  const TensorRecord& t = scope.tensor;
  const uint32 reduced = reduced_in<SpaceNumber>(t.dims);
  const Block block = block_of(t, reduced, t.spaces[SpaceNumber].members);
  const int64 group = side_by_side(t, reduced);
  if (block.size() > 1 && length_of_members(t, reduced) < kLeaf)
    sum_blocks<S, Pass, SpaceNumber>(scope, block, first, count);
  else if (group >= kWorthARun)
    sum_side_by_side<S, Pass, SpaceNumber>(scope, group, first, count);
  else
    return false;
  return true;
}

}  // namespace jitstep
