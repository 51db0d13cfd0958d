// Torch's tensors in the kernels' words.
#pragma once

#include <torch/torch.h>

#include "jitstep/jit/manifest.h"
#include "jitstep/jit/step_tensor.h"

namespace jitstep {

/// Sizes and strides; a scalar is a vector of one.
jit::Shape shape_of(const torch::Tensor& tensor);

/// The dtype of a weight or gradient. A c10::Error for any other than float64, float32, bfloat16 and
/// float16.
jit::Dtype dtype_of(const torch::Tensor& tensor);

/// Whether everything a step reads and writes of a parameter is aligned to 16 bytes.
bool is_aligned(const jit::StepTensor& tensor, const void* g);

}  // namespace jitstep
