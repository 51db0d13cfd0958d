#include "jit/step/shared_memory.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace jitstep::jit {
namespace {

using Address = std::uintptr_t;

// Calls visit(address) for every element, until one call returns true.
template <class Visit>
bool any_element(const Elements& all, std::size_t dim, Address at, const Visit& visit) {
  if (dim == all.sizes.size()) return visit(at);
  const auto step = static_cast<Address>(all.strides[dim]) * all.bytes;
  for (std::int64_t i = 0; i < all.sizes[dim]; ++i, at += step)
    if (any_element(all, dim + 1, at, visit)) return true;
  return false;
}

// A bitmap over several tensors. Its unit divides every element's size and offset, so that an element is a whole
// number of units.
class Marks {
 public:
  Marks() = default;

  void cover(const Elements& one) {
    if (unit_ == 0) base_ = one.begin;
    unit_ = std::gcd(unit_, std::gcd(one.begin - base_, Address{one.bytes}));
    end_ = std::max(end_, one.end);
  }
  /// Call it after the last cover(). The tensors were covered in order of their addresses.
  void start() { marked_.assign((end_ - base_) / unit_, false); }

  /// True if an element of `one` overlaps a marked element. Otherwise marks all elements of `one`.
  bool overlaps(const Elements& one) {
    const Address units = one.bytes / unit_;
    const auto first = [&](Address at) { return (at - base_) / unit_; };
    if (any_element(one, 0, one.begin, [&](Address at) {
          for (Address u = first(at); u < first(at) + units; ++u)
            if (marked_[u]) return true;
          return false;
        }))
      return true;
    any_element(one, 0, one.begin, [&](Address at) {
      for (Address u = first(at); u < first(at) + units; ++u) marked_[u] = true;
      return false;
    });
    return false;
  }

 private:
  Address base_ = 0, end_ = 0, unit_ = 0;
  std::vector<bool> marked_;
};

// `cluster`: indices of tensors whose address ranges overlap, in order of address. Their elements may still interleave
// without sharing.
void check_cluster(const std::vector<Elements>& all, std::span<const std::size_t> cluster,
                   const std::function<void(std::size_t, std::size_t)>& found) {
  if (cluster.size() < 2) return;
  Marks marks;
  for (const std::size_t i : cluster) marks.cover(all[i]);
  marks.start();
  for (const std::size_t i : cluster) {
    if (!marks.overlaps(all[i])) continue;
    for (const std::size_t other : cluster)
      if (other != i && share_memory(all[other], all[i])) found(other, i);
  }
}

}  // namespace

Elements elements_at(const void* first, std::span<const std::int64_t> sizes,
                     std::span<const std::int64_t> strides, std::size_t bytes) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  const auto begin = reinterpret_cast<Address>(first);
  return {begin, begin + static_cast<Address>(last + 1) * bytes, sizes, strides, bytes};
}

bool share_memory(const Elements& a, const Elements& b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  const bool in_order = a.begin <= b.begin;
  const Elements &first = in_order ? a : b, &second = in_order ? b : a;
  Marks marks;
  marks.cover(first);
  marks.cover(second);
  marks.start();
  marks.overlaps(first);
  return marks.overlaps(second);
}

AddressRanges::AddressRanges(const std::vector<Elements>& tensors) {
  std::vector<std::pair<Address, Address>> ranges;
  for (const Elements& one : tensors) ranges.emplace_back(one.begin, one.end);
  std::sort(ranges.begin(), ranges.end());
  for (const auto& [begin, end] : ranges) {
    begins_.push_back(begin);
    ends_.push_back(ends_.empty() ? end : std::max(end, ends_.back()));
  }
}

bool AddressRanges::overlap(Address begin, Address end) const {
  const auto later = std::lower_bound(begins_.begin(), begins_.end(), end);
  return later != begins_.begin() &&
         ends_[static_cast<std::size_t>(later - begins_.begin()) - 1] > begin;
}

void find_shared(const std::vector<Elements>& all,
                 const std::function<void(std::size_t, std::size_t)>& found) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return all[a].begin < all[b].begin; });
  for (std::size_t first = 0; first < order.size();) {
    Address end = all[order[first]].end;
    std::size_t next = first + 1;
    for (; next < order.size() && all[order[next]].begin < end; ++next)
      end = std::max(end, all[order[next]].end);
    check_cluster(all, std::span(order).subspan(first, next - first), found);
    first = next;
  }
}

}  // namespace jitstep::jit
