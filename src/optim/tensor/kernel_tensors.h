// Torch's tensors in the kernels' words.
#pragma once

#include <torch/types.h>

#include "jitstep/jit/dtype.h"
#include "jitstep/jit/step_tensor.h"

namespace jitstep {

/// Sizes and strides; a scalar is a vector of one.
jit::Shape shape_of(const torch::Tensor& tensor);

/// The dtype of a weight or gradient. A c10::Error for any other than float64, float32, bfloat16 and
/// float16.
jit::Dtype dtype_of(const torch::Tensor& tensor);
/// Whether dtype_of knows it.
bool is_supported(torch::ScalarType type);
/// The inverse of dtype_of.
torch::ScalarType torch_dtype(jit::Dtype dtype);
/// The arithmetic type of a parameter's step: float64 for float64, else float32.
torch::ScalarType real_dtype(jit::Dtype parameter);

/// Memory of the kernels' as a tensor like a parameter: in its storage order, as wide as the arithmetic.
torch::Tensor values_at(void* memory, const torch::Tensor& parameter);

/// Whether everything a step reads and writes of a parameter is aligned to 16 bytes.
bool is_aligned(const jit::StepTensor& tensor, const void* g);

}  // namespace jitstep
