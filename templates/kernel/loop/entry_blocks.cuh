// One thread's sums over entries whose elements alternate in memory in short spans, as in small convolutions. It
// reads elements in memory order. Then it reorders their terms by members and entries.
#pragma once
#include "leaf_terms.cuh"

namespace jitstep {

inline constexpr int kMostOfBlock = 256;  // elements
inline constexpr int kStrip = 4 * kLeaf;  // elements read at once
inline constexpr int kRoom = 64 * kLeaf;  // elements reordered at once

// The last dimensions whose product is small. Their elements are `entries` times `members`, contiguous in both
// orders. `count` blocks along the next dimensions are contiguous in memory. Each block has the next entries, or the
// next members of the same entries.
struct Block {
  int entries = 1, members = 1;
  int64 count = 1;
  bool with_next_entries = false;
  KHD int size() const { return entries * members; }
};

// members: of an entry. A block of one element means that the tensor has no blocks.
SLOW_PATH Block block_of(const TensorRecord& t, uint32 reduced, int64 members) {
  const int64 room = kRoom / min<int64>(members, kLeaf);
  Block block;
  int d = t.dims - 1;
  for (; d >= 0; --d) {
    const Dim& dim = t.dim[d];
    const bool inside = reduced >> d & 1u;
    if (dim.size == 1) continue;
    if (dim.stride != block.size() || block.size() * dim.size > kMostOfBlock) break;
    if (!inside && block.entries * dim.size > room) break;
    (inside ? block.members : block.entries) *= static_cast<int>(dim.size);
  }
  for (; d >= 0; --d) {
    const Dim& dim = t.dim[d];
    const bool inside = reduced >> d & 1u;
    if (dim.size == 1) continue;
    if (dim.stride != block.size() * block.count) break;
    if (block.count == 1) block.with_next_entries = !inside;
    if (block.with_next_entries == inside) break;
    block.count *= dim.size;
  }
  return block;
}

template <TermOps Ops>
class EntryBlocks {
 public:
  using Strip = real[Ops.count][kStrip];
  // Computes the terms of `count` consecutive elements from `element`.
  using Read = Callback<int64, int, Strip&>;
  using Terms = real[Ops.count][kRoom];  // all entries of member 0, then of member 1, ...
  // store_side_by_side() without its context.
  using Store = Callback<int64, int64, int, const Terms&, int>;

  KHD EntryBlocks(const TensorRecord& tensor, const ReductionLayout& layout, uint32 reduced,
                  const Block& block, const Read& read, const Store& store)
      : tensor_(tensor),
        layout_(layout),
        reduced_(reduced),
        block_(block),
        read_(read),
        store_(store) {
    number_elements();
  }

  // Sums `count` leaves from number `first`. Leaves at the same position of their entries are consecutive.
  KHD void sum(int64 first, int count) {
    for (int64 at = first; at < first + count;) {
      const int64 entry = at % layout_.entries, leaf = at / layout_.entries;
      position_ = leaf * kLeaf;
      valid_ = static_cast<int>(min<int64>(layout_.members - position_, kLeaf));
      const int64 begin = entry - entry % block_.entries;
      const int64 end = min<int64>(entry + first + count - at, layout_.entries);
      const int blocks = blocks_from(begin, end);
      width_ = blocks * block_.entries;
      take(begin, blocks);
      for_ops<Ops>([&](auto op, int n) { tree_of_part<decltype(op)>(terms_[n], valid_, width_); });
      const int64 past = min(end, begin + width_);
      store_(leaf, entry, static_cast<int>(past - entry), terms_, static_cast<int>(entry - begin));
      at += past - entry;
    }
  }

 private:
  // Computes the entry and the member of each element of a block.
  KHD void number_elements() {
    const TensorRecord& t = tensor_;
    for (int i = 0; i < block_.size(); ++i) {
      int entry = 0, member = 0, entries = 1, members = 1;
      for (int d = t.dims - 1; d >= 0 && entries * members < block_.size(); --d) {
        const bool inside = reduced_ >> d & 1u;
        const int size = static_cast<int>(t.dim[d].size);
        const int index = i / (entries * members) % size;
        (inside ? member : entry) += index * (inside ? members : entries);
        (inside ? members : entries) *= size;
      }
      entry_[i] = static_cast<uint16>(entry);
      member_[i] = static_cast<uint16>(member);
    }
  }

  // How many blocks with entries from `begin` to `end` one pass of `take` processes.
  KHD int blocks_from(int64 begin, int64 end) const {
    if (!block_.with_next_entries) return 1;
    const int64 wanted = (end - begin + block_.entries - 1) / block_.entries;
    const int64 left = block_.count - begin / block_.entries % block_.count;
    const int room = min(kStrip / block_.size(), kRoom / (block_.entries * valid_));
    return static_cast<int>(min<int64>(min(wanted, left), max(1, room)));
  }

  // Computes the terms of the leaf's members, of entries from `begin`.
  KHD void take(int64 begin, int blocks) {
    const int64 end = position_ + valid_;
    for (int64 member = position_ - position_ % block_.members; member < end;) {
      const int count = block_.with_next_entries ? blocks : blocks_along(member, end);
      const int64 element = element_of(tensor_, reduced_, begin, member);
      read_(element, count * block_.size(), strip_);
      for (int n = 0; n < Ops.count; ++n)
        put_in_order(static_cast<int>(member - position_), count, strip_[n], terms_[n]);
      member += block_.with_next_entries ? block_.members : count * block_.members;
    }
  }

  // How many blocks from `member` on are contiguous.
  KHD int blocks_along(int64 member, int64 end) const {
    const int64 wanted = (end - member + block_.members - 1) / block_.members;
    const int64 left = block_.count - member / block_.members % block_.count;
    return static_cast<int>(min<int64>(min(wanted, left), kStrip / block_.size()));
  }

  // index: position of the first member in the leaf. Members may be outside the leaf.
  KHD void put_in_order(int index, int count, const real* from, real* to) const {
    const int size = block_.size();
    const int next = block_.with_next_entries ? 0 : block_.members;
    const int stride = block_.with_next_entries ? block_.entries : next * width_;
    for (int i = 0; i < size; ++i) {
      const int member = index + member_[i];
      int first = 0, last = count;
      if (next == 0) {
        if (member < 0 || member >= valid_) continue;
      } else {
        first = member < 0 ? 1 : 0;
        last = min(count, member < valid_ ? (valid_ - 1 - member) / next + 1 : 0);
      }
      real* const column = to + member * width_ + entry_[i];
      INDEPENDENT
      for (int b = first; b < last; ++b) column[b * stride] = from[b * size + i];
    }
  }

  const TensorRecord& tensor_;
  const ReductionLayout& layout_;
  uint32 reduced_;
  Block block_;
  const Read& read_;
  const Store& store_;
  int64 position_ = 0;  // first member of the leaf
  int valid_ = 0;       // members of the leaf
  int width_ = 0;       // entries to reorder
  uint16 entry_[kMostOfBlock], member_[kMostOfBlock];
  Strip strip_;
  Terms terms_;
};

template <TermOps Ops>
SLOW_PATH void sum_blocks(EntryBlocks<Ops>& blocks, int64 first, int count) {
  blocks.sum(first, count);
}

template <class S, int Pass, int LayoutNumber>
KHD void sum_in_blocks(const Scope<S>& scope, const Block& block, int64 first, int count) {
  using Blocks = EntryBlocks<term_ops<S, Pass, LayoutNumber>()>;
  RangeTerms<S, Pass, 1u << LayoutNumber> terms;
  const auto read = [&](int64 element, int elements, typename Blocks::Strip& to) {
    for (int done = 0; done < elements; done += kLeaf) {
      const int some = min(elements - done, kLeaf);
      compute_terms(scope, element + done, some, terms);
      copy_terms<S, Pass, LayoutNumber>(terms, some, to, done);
    }
  };
  const auto store = [&](int64 leaf, int64 entry, int width, const typename Blocks::Terms& sums,
                         int first_sum) {
    store_side_by_side<S, Pass, LayoutNumber>(scope, leaf, entry, width, sums, first_sum);
  };
  const typename Blocks::Read reader(read);
  const typename Blocks::Store writer(store);
  Blocks blocks(scope.tensor, scope.tensor.reduction_layouts[LayoutNumber],
                reduced_in<LayoutNumber>(scope.tensor.dims), block, reader, writer);
  sum_blocks(blocks, first, count);
}

}  // namespace jitstep
