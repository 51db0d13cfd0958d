// A sum whose bits depend on the order of its terms alone: of ranks and micro-batches.
#pragma once

#include <torch/types.h>

#include <vector>

namespace jitstep {

/// Adds tensors as a tree over their order: neighbors first, then sums of neighbors. Float64 terms are added in
/// float64, others in float32. The first 2^k of 2^k m terms may be added elsewhere: their sum is a node of the tree.
class OrderedSum {
 public:
  /// The dtype in which values are added.
  static torch::ScalarType dtype(torch::ScalarType values) {
    return values == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  }

  /// Adds the next term, which may be overwritten. At most log2(terms) + 1 tensors are kept.
  void add(const torch::Tensor& term);
  /// The sum of all terms, which may share memory with one of them. Undefined without terms. Begins again.
  torch::Tensor take();

 private:
  std::vector<torch::Tensor>
      nodes_;  // by level: a sum of 2^level terms that has no neighbor yet, or undefined
};

/// The sum of the rows of `rows`, [n, k], divided by `count` and rounded once, to `dtype`. A new tensor: [k].
/// Overwrites rows.
torch::Tensor ordered_mean(const torch::Tensor& rows, double count, torch::ScalarType dtype);

}  // namespace jitstep
