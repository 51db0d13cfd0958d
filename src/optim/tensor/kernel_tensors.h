// Torch's tensors in the kernels' words.
#pragma once

#include <torch/torch.h>

#include "jitstep/jit/step_tables.h"
#include "jitstep/state_buffers.h"

namespace jitstep {

/// Sizes and strides; a scalar is a vector of one.
jit::Shape shape_of(const torch::Tensor& tensor);

/// The dtype of a weight or gradient. A c10::Error for any other than float64, float32, bfloat16 and
/// float16.
jit::Dtype dtype_of(const torch::Tensor& tensor);

/// A parameter with its state. g_strides: the gradient's, in p's logical order.
jit::StepTensor kernel_tensor(const torch::Tensor& p, const StateBuffers& state,
                              torch::IntArrayRef g_strides);

/// Whether everything a step reads and writes of a parameter is aligned to 16 bytes.
bool is_aligned(const jit::StepTensor& tensor, const void* g);

}  // namespace jitstep
