#include "optim/shard/whole_transform.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "jitstep/jit/layout.h"
#include "optim/shard/rank_check.h"
#include "optim/tensor/kernel_tensors.h"

namespace jitstep {
namespace {

// The work of an iteration by products of matrices.
double work_of(const torch::Tensor& p) {
  const auto n = static_cast<double>(p.numel());
  if (p.dim() != 2) return n;
  return n * static_cast<double>(std::min(p.size(0), p.size(1)));
}

torch::Tensor whole_values(const PartialValues& one) {
  const auto options = one.like.options().dtype(one.dtype).requires_grad(false);
  if (one.like.dim() == 0) return torch::empty({}, options);
  return torch::empty_strided(one.like.sizes(), jit::compact_strides(shape_of(one.like)), options);
}

torch::Tensor bytes_of(const torch::Tensor& values) {
  return storage_range(values, 0, values.numel()).view(torch::kUInt8);
}

// One direction of the exchange: parts to owners, and back.
class Route {
 public:
  Route(const RankGroup& group, const jit::Partition& partition,
        const std::vector<PartialValues>& all)
      : rank_(group.rank()), ranks_(group.size()), partition_(partition), all_(all) {
    owners_ = transform_owners(all, ranks_);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (int rank = 0; all[i].stays && rank < ranks_; ++rank)
        if (partition.part(rank, all[i].index).count() > 0) owners_[i] = rank;
  }

  bool is_mine(std::size_t i) const { return owners_[i] == rank_; }

  /// Bytes of this rank's parts, by owner; and bytes of the parts of owned values, by rank.
  std::vector<std::int64_t> parts() const {
    return sizes([&](std::size_t i) { return owners_[i]; },
                 [&](std::size_t i, int) { return bytes(rank_, i); });
  }
  std::vector<std::int64_t> owned() const {
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank)
      for (std::size_t i = 0; i < all_.size(); ++i)
        if (is_mine(i)) of_rank[static_cast<std::size_t>(rank)] += bytes(rank, i);
    return of_rank;
  }

  /// Calls f(i, first byte, bytes) for this rank's parts in the order in which they travel.
  template <class F>
  void for_parts(F&& f) const {
    std::int64_t at = 0;
    for (int owner = 0; owner < ranks_; ++owner)
      for (std::size_t i = 0; i < all_.size(); ++i)
        if (owners_[i] == owner && bytes(rank_, i) > 0)
          f(i, at, bytes(rank_, i)), at += bytes(rank_, i);
  }
  /// Calls f(i, first byte in the whole values, first byte in the message, bytes) for all parts of owned values.
  template <class F>
  void for_owned(F&& f) const {
    std::int64_t at = 0;
    for (int rank = 0; rank < ranks_; ++rank)
      for (std::size_t i = 0; i < all_.size(); ++i)
        if (is_mine(i) && bytes(rank, i) > 0) {
          f(i, partition_.part(rank, all_[i].index).first * width(i), at, bytes(rank, i));
          at += bytes(rank, i);
        }
  }

 private:
  std::int64_t width(std::size_t i) const {
    return static_cast<std::int64_t>(torch::elementSize(all_[i].dtype));
  }
  std::int64_t bytes(int rank, std::size_t i) const {
    return partition_.part(rank, all_[i].index).count() * width(i);
  }
  template <class To, class Count>
  std::vector<std::int64_t> sizes(To&& to, Count&& count) const {
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks_));
    for (std::size_t i = 0; i < all_.size(); ++i)
      of_rank[static_cast<std::size_t>(to(i))] += count(i, to(i));
    return of_rank;
  }

  int rank_, ranks_;
  const jit::Partition& partition_;
  const std::vector<PartialValues>& all_;
  std::vector<int> owners_;
};

std::int64_t sum_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

// Runs what may fail on one rank. Then all ranks throw, so that none waits for the next exchange.
void together(RankGroup& group, const std::function<void()>& action) {
  try {
    action();
  } catch (...) {
    report_failure(group);
    throw;
  }
  check_same(group, RankCall::step);
}

}  // namespace

std::vector<int> transform_owners(const std::vector<PartialValues>& all, int ranks) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return work_of(all[a].like) > work_of(all[b].like);
  });
  std::vector<double> work(static_cast<std::size_t>(ranks));
  std::vector<int> owners(all.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(work.begin(), work.end());
    owners[i] = static_cast<int>(least - work.begin());
    *least += work_of(all[i].like);
  }
  return owners;
}

void transform_whole(
    RankGroup& group, const jit::Partition& partition, const std::vector<PartialValues>& all,
    const std::function<void(std::size_t group, const std::vector<WholeValues>&)>& transform) {
  if (all.empty()) return;
  const Route route(group, partition, all);
  const std::vector<std::int64_t> parts = route.parts(), owned = route.owned();
  const auto bytes = torch::dtype(torch::kUInt8).device(all.front().like.device());
  torch::Tensor mine = torch::empty({sum_of(parts)}, bytes);
  route.for_parts([&](std::size_t i, std::int64_t at, std::int64_t count) {
    mine.narrow(0, at, count).copy_(bytes_of(all[i].part));
  });
  torch::Tensor received = group.all_to_all(mine, parts, owned);
  std::vector<torch::Tensor> whole(all.size());
  std::map<std::size_t, std::vector<WholeValues>> of_group;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (route.is_mine(i)) {
      whole[i] = whole_values(all[i]);
      of_group[all[i].group].push_back({i, whole[i]});
    }
  route.for_owned([&](std::size_t i, std::int64_t first, std::int64_t at, std::int64_t count) {
    bytes_of(whole[i]).narrow(0, first, count).copy_(received.narrow(0, at, count));
  });
  together(group, [&] {
    for (const auto& [number, values] : of_group) transform(number, values);
  });
  route.for_owned([&](std::size_t i, std::int64_t first, std::int64_t at, std::int64_t count) {
    received.narrow(0, at, count).copy_(bytes_of(whole[i]).narrow(0, first, count));
  });
  mine = group.all_to_all(received, owned, parts);
  route.for_parts([&](std::size_t i, std::int64_t at, std::int64_t count) {
    bytes_of(all[i].part).copy_(mine.narrow(0, at, count));
  });
}

}  // namespace jitstep
