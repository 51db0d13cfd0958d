// One thread's sums over the entries of a domain. It processes consecutive elements of one entry as ranges. If
// entries are adjacent in memory, as columns are, a range crosses one entry per element, and all their leaves
// accumulate together. If both are short, entry_blocks.cuh processes blocks.
#pragma once
#include "../tile/traversal.cuh"
#include "entry_blocks.cuh"

namespace jitstep {

// ---- consecutive members -----------------------------------------------------------------------

// How many members of an entry are consecutive in memory.
KHD int64 length_of_members(const TensorRecord& t, uint32 reduced) {
  int64 length = 1;
  for (int d = t.dims - 1; d >= 0; --d) {
    if (t.dim[d].size == 1 || !(reduced >> d & 1u)) continue;
    if (t.dim[d].stride != length) break;
    length *= t.dim[d].size;
  }
  return length;
}

inline constexpr int64 kWorthARange = 16;  // elements; shorter ranges are not worth a loop

template <class S, int Pass, int LayoutNumber>
SLOW_PATH void take_one_by_one(const Scope<S>& scope, const Gather& at,
                               real (&x)[LeafSums<S, Pass, LayoutNumber>::kTerms][kLeaf]) {
  TileTraversal::take<S, Pass, LayoutNumber>(scope, at, x);
}

// The members of an entry in memory order. Maxima may take them in this order.
class MembersInMemory {
 public:
  KHD explicit MembersInMemory(const Gather& at) : at_(at), length_(length_of(at)) {}
  // How many of them are consecutive, from a multiple of this number on.
  KHD int64 length() const { return length_; }
  SLOW_PATH int64 element(const MembersInMemory& own, int64 position) {
    return own.element(position);
  }

 private:
  KHD static int64 length_of(const Gather& at) {
    const EntrySpan span = span_of(at.tensor, at.reduced);
    return span.step == 0 ? span.length : 1;
  }
  // The reduced dimension with the least stride above `stride`, or -1.
  KHD int next_dimension(int64 stride) const {
    const TensorRecord& t = at_.tensor;
    int next = -1;
    for (int d = 0; d < t.dims; ++d)
      if ((at_.reduced >> d & 1u) && t.dim[d].size > 1 && t.dim[d].stride > stride &&
          (next < 0 || t.dim[d].stride < t.dim[next].stride))
        next = d;
    return next;
  }
  KHD int64 element(int64 position) const {
    int64 element = element_of(at_.tensor, at_.reduced, at_.entry, 0);
    for (int d = next_dimension(0); d >= 0; d = next_dimension(at_.tensor.dim[d].stride)) {
      const Dim& dim = at_.tensor.dim[d];
      element += position % dim.size * dim.stride;
      position /= dim.size;
    }
    return element;
  }

  const Gather& at_;
  int64 length_;
};

// The terms of the members of one leaf of an entry, in ranges of `span` consecutive members. element(i): that of member
// i of the leaf.
template <class S, int Pass, int LayoutNumber>
KHD void take_ranges(const Scope<S>& scope, const Gather& at, int64 span,
                     real (&x)[LeafSums<S, Pass, LayoutNumber>::kTerms][kLeaf], auto&& element) {
  const int valid = static_cast<int>(at.valid);
  RangeTerms<S, Pass, 1u << LayoutNumber> terms;
  for (int done = 0; done < valid;) {
    const int64 left = span - (at.position + done) % span;
    const int count = static_cast<int>(min<int64>(valid - done, left));
    compute_terms(scope, element(done), count, terms);
    copy_terms<S, Pass, LayoutNumber>(terms, count, x, done);
    done += count;
  }
}

// The terms of the members of one leaf of an entry. All leaves of an entry number its members in the same order.
template <class S, int Pass, int LayoutNumber>
KHD void take_members(const Scope<S>& scope, const Gather& at,
                      real (&x)[LeafSums<S, Pass, LayoutNumber>::kTerms][kLeaf]) {
  if constexpr (in_any_order<S, Pass, LayoutNumber>()) {
    const MembersInMemory members(at);
    if (members.length() >= kWorthARange)
      return take_ranges<S, Pass, LayoutNumber>(scope, at, members.length(), x, [&](int i) {
        return MembersInMemory::element(members, at.position + i);
      });
    return take_one_by_one<S, Pass, LayoutNumber>(scope, at, x);
  }
  const int64 span = length_of_members(scope.tensor, at.reduced);
  if (span < min<int64>(kWorthARange, at.valid))
    return take_one_by_one<S, Pass, LayoutNumber>(scope, at, x);
  take_ranges<S, Pass, LayoutNumber>(scope, at, span, x,
                                     [&](int i) { return at.element(static_cast<uint32>(i)); });
}

// ---- adjacent entries --------------------------------------------------------------------------

// Entries along the dimension that varies fastest in memory: `count` of them are adjacent there, with numbers `step`
// apart. count is 1 if that dimension is inside an entry.
struct AdjacentEntries {
  int64 count = 1, step = 1;
  // Entry number i, if adjacent ones come one after another.
  KHD int64 entry(int64 i) const {
    const int64 rest = i / count;
    return (rest / step * count + i % count) * step + rest % step;
  }
};
SLOW_PATH AdjacentEntries side_by_side(const TensorRecord& t, uint32 reduced) {
  const int d = dimension_of_stride(t, 1);
  if (d < 0 || (reduced >> d & 1u)) return {};
  return {t.dim[d].size, entry_stride(t, reduced, d)};
}

// Streaming pairwise sums of the leaves of adjacent entries. Members come in bit-reversed order of their index in the
// leaf: 0, 128, 64, 192, ... The tree adds indices i and i + s, so it stores at most one pending partial per tree
// level. It skips missing indices: +0 would change only the sign of a zero, and the root gets +0.
template <TermOps Ops, int Width>
class PairwiseAccumulator {
 public:
  using Terms = real[Ops.count][Width];
  using Take = Callback<int, Terms&>;

  // The sums of indices 0 to valid - 1 of `width` entries. take(index, to) accumulates into the first `width` of `to`.
  SLOW_PATH const Terms& accumulated(PairwiseAccumulator& own, int valid, int width,
                                     const Take& take) {
    return own.accumulate(valid, width, take);
  }

 private:
  struct Waiting {
    Terms node;
    bool there;
  };

  KHD const Terms& accumulate(int valid, int width, const Take& take) {
    if constexpr (Ops.in_any_order()) {
      for (int n = 0; n < Ops.count; ++n)
        for (int i = 0; i < width; ++i) node_[n][i] = static_cast<real>(MaxOp::absent);
      for (int index = 0; index < valid; ++index) take(index, node_);
      return node_;
    }
    for (uint32 order = 0; order < kLeaf; ++order) {
      const int index = reversed(order);
      bool there = index < valid;
      if (there) take(index, node_);
      int level = 0;
      for (; order >> level & 1u; ++level) there = join(level, there, width);
      if (level == kLeafLevels) break;
      waits_[level].there = there;
      if (there) copy(node_, waits_[level].node, width);
    }
    return node_;
  }
  KHD static int reversed(uint32 order) {
    int index = 0;
    for (int bit = 0; bit < kLeafLevels; ++bit)
      index = index << 1 | static_cast<int>(order >> bit & 1u);
    return index;
  }
  KHD static void copy(const Terms& from, Terms& to, int width) {
    for (int n = 0; n < Ops.count; ++n)
      for (int i = 0; i < width; ++i) to[n][i] = from[n][i];
  }
  // Combines the node with its pending other half, if that exists.
  KHD bool join(int level, bool there, int width) {
    const Waiting& other = waits_[level];
    if (!other.there) return there;
    if (there)
      for_ops<Ops>([&](auto op, int n) {
        for (int i = 0; i < width; ++i) node_[n][i] = op.combine(other.node[n][i], node_[n][i]);
      });
    else
      copy(other.node, node_, width);
    return true;
  }

  Terms node_;
  Waiting waits_[kLeafLevels];
};

// The elements of a leaf's members, computed by a constant stride if there is one.
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
  KHD int64 operator[](int index) const {
    return even_ ? first_ + index * stride_ : at_.element(static_cast<uint32>(index));
  }

 private:
  const Gather& at_;
  int64 first_, stride_;
  bool even_;
};

// Sums leaf `leaf` of `width` adjacent entries, whose numbers are `step` apart.
template <class S, int Pass, int LayoutNumber>
KHD void sum_leaves(const Scope<S>& scope, int64 leaf, int64 entry, int width, int64 step) {
  using L = LeafSums<S, Pass, LayoutNumber>;
  using Leaves = PairwiseAccumulator<term_ops<S, Pass, LayoutNumber>(), kLeaf>;
  const ReductionLayout& reduction_layout = scope.tensor.reduction_layouts[LayoutNumber];
  const int64 position = leaf * kLeaf;
  const int valid = static_cast<int>(min<int64>(reduction_layout.members - position, kLeaf));
  const Gather at{scope.tensor, reduced_in<LayoutNumber>(scope.tensor.dims), entry, position,
                  static_cast<uint32>(valid)};
  const Members members(at);
  RangeTerms<S, Pass, 1u << LayoutNumber> terms;
  Leaves leaves;
  const auto take = [&](int index, typename Leaves::Terms& to) {
    compute_terms(scope, members[index], width, terms);
    L::accumulate(terms.template of<LayoutNumber>(), width, to, 0);
  };
  const auto& sums = Leaves::accumulated(leaves, valid, width, typename Leaves::Take(take));
  store_side_by_side<S, Pass, LayoutNumber>(scope, leaf, entry, width, sums, 0, step);
}

// Sums `count` leaves from number `first`. Leaves at the same position of their entries are consecutive, and those of
// adjacent entries too.
template <class S, int Pass, int LayoutNumber>
KHD void sum_side_by_side(const Scope<S>& scope, const AdjacentEntries& adjacent, int64 first,
                          int count) {
  const int64 entries = scope.tensor.reduction_layouts[LayoutNumber].entries;
  for (int64 at = first; at < first + count;) {
    const int64 number = at % entries, left = first + count - at;
    const int width = static_cast<int>(min<int64>(left, adjacent.count - number % adjacent.count));
    sum_leaves<S, Pass, LayoutNumber>(scope, at / entries, adjacent.entry(number), width,
                                      adjacent.step);
    at += width;
  }
}

// ---- the fastest method -------------------------------------------------------------------------

// Sums `count` leaves, numbered from `first` in memory order. Returns false if no method applies. The caller then
// sums leaf after leaf, entry after entry.
template <class S, int Pass, int LayoutNumber>
KHD bool sum_in_memory_order(const Scope<S>& scope, int64 first, int count) {
  const TensorRecord& t = scope.tensor;
  const uint32 reduced = reduced_in<LayoutNumber>(t.dims);
  const Block block = block_of(t, reduced, t.reduction_layouts[LayoutNumber].members);
  const AdjacentEntries adjacent = side_by_side(t, reduced);
  if (block.size() > 1 && length_of_members(t, reduced) < kLeaf)
    sum_in_blocks<S, Pass, LayoutNumber>(scope, block, first, count);
  else if (adjacent.count >= kWorthARange)
    sum_side_by_side<S, Pass, LayoutNumber>(scope, adjacent, first, count);
  else
    return false;
  return true;
}

}  // namespace jitstep
