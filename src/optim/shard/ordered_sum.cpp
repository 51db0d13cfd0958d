#include "optim/shard/ordered_sum.h"

#include <cstddef>
#include <utility>

namespace jitstep {

// A binary counter of terms: two sums of a level become one of the next level.
void OrderedSum::add(const torch::Tensor& term) {
  torch::Tensor node = term.to(dtype(term.scalar_type()));
  std::size_t level = 0;
  for (; level < nodes_.size() && nodes_[level].defined(); ++level)
    node = std::exchange(nodes_[level], {}).add_(node);
  if (level == nodes_.size()) nodes_.emplace_back();
  nodes_[level] = node;
}

// A node without a neighbor passes to the next level.
torch::Tensor OrderedSum::take() {
  torch::Tensor sum;
  for (const torch::Tensor& node : std::exchange(nodes_, {}))
    if (node.defined()) sum = sum.defined() ? node.add_(sum) : node;
  return sum;
}

torch::Tensor ordered_mean(const torch::Tensor& rows, double count, torch::ScalarType dtype) {
  OrderedSum sum;
  for (const torch::Tensor& row : rows.unbind()) sum.add(row);
  return sum.take().div(count).to(dtype);
}

}  // namespace jitstep
