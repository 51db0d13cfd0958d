#include "jit/step/partition.h"

#include <algorithm>
#include <numeric>

#include "jit/base/integers.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

void check(const std::vector<PartitionedTensor>& tensors, int ranks) {
  if (ranks < 1)
    throw Error(str_cat("cannot share an optimizer among ", ranks,
                        " ranks. The number of ranks must be at least 1."));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].elements < 0 || tensors[i].grain < 0)
      throw Error(str_cat("cannot partition tensor ", i, ": it has ", tensors[i].elements,
                          " elements and a grain of ", tensors[i].grain,
                          ". Both must be at least 0."));
}

}  // namespace

std::int64_t part_grain(const Plan& plan) {
  for (const ResolvedReduction& r : plan.reductions)
    if (r.active() && r.reduction_layout != 0) return 0;
  for (const ResolvedAuxState& field : plan.aux_state)
    if (field.domain.kind != Domain::Kind::tensor || field.matrix) return 0;
  std::int64_t grain = kPartElements;
  for (std::size_t slot = 0; slot < plan.spec.state.slots.size(); ++slot)
    grain = std::lcm(grain, std::int64_t{plan.block(static_cast<int>(slot))});
  return grain;
}

Partition::Partition(const std::vector<PartitionedTensor>& tensors, int ranks)
    : tensors_(tensors.size()) {
  check(tensors, ranks);
  elements_.resize(static_cast<std::size_t>(ranks));
  parts_.resize(elements_.size() * tensors_);
  give_whole(tensors);
  for (std::size_t i = 0; i < tensors_; ++i)
    if (tensors[i].grain > 0) deal(tensors[i], i);
}

// The longest processing time first rule: at most 4/3 of the best possible maximum.
void Partition::give_whole(const std::vector<PartitionedTensor>& tensors) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tensors_; ++i)
    if (tensors[i].grain == 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].elements > tensors[b].elements;
  });
  for (const std::size_t i : order) {
    const auto least = std::min_element(elements_.begin(), elements_.end());
    at(static_cast<std::size_t>(least - elements_.begin()), i) = {0, tensors[i].elements};
    *least += tensors[i].elements;
  }
}

void Partition::deal(const PartitionedTensor& tensor, std::size_t index) {
  const auto ranks = static_cast<std::int64_t>(elements_.size());
  const std::int64_t grains = ceil_div(tensor.elements, tensor.grain);
  std::vector<std::int64_t> of_rank(elements_.size(), grains / ranks);
  std::vector<std::size_t> order(elements_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return elements_[a] < elements_[b]; });
  for (std::int64_t i = 0; i < grains % ranks; ++i) ++of_rank[order[static_cast<std::size_t>(i)]];
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    const std::int64_t last = std::min(first + of_rank[rank] * tensor.grain, tensor.elements);
    if (last > first) at(rank, index) = {first, last};
    elements_[rank] += last - first;
    first = last;
  }
}

double Partition::imbalance() const {
  const std::int64_t all = std::accumulate(elements_.begin(), elements_.end(), std::int64_t{0});
  if (all == 0) return 1;
  const auto most = static_cast<double>(*std::max_element(elements_.begin(), elements_.end()));
  return most * ranks() / static_cast<double>(all);
}

}  // namespace jitstep::jit
