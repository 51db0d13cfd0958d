// Where a tensor lies and what it is there.
#pragma once

#include <torch/types.h>

#include <vector>

namespace jitstep {

/// What kernels were told about a tensor that they write. Whoever holds it may give it other memory,
/// sizes or another dtype: `holds` is asked before every step.
class TensorPlace {
 public:
  explicit TensorPlace(const torch::Tensor& tensor);

  /// Whether the tensor still lies there and is what it was. Costs a few comparisons; a
  /// copy-on-write tensor becomes separate here, as it is about to be written.
  bool holds(const torch::Tensor& tensor) const;

 private:
  const void* data_ = nullptr;
  std::size_t storage_bytes_ = 0;
  torch::ScalarType dtype_ = torch::kFloat32;
  torch::Device device_ = torch::kCPU;
  std::vector<std::int64_t> sizes_, strides_;
};

}  // namespace jitstep
