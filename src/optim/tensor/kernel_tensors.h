// Conversion of torch's tensors and dtypes to the types of jit.
#pragma once

#include <torch/types.h>

#include "jitstep/jit/step.h"
#include "jitstep/jit/value.h"

namespace jitstep {

/// Sizes and strides. A 0-dimensional tensor becomes a vector of one element.
jit::Shape shape_of(const torch::Tensor& tensor);

/// The dtype of a parameter or gradient. Throws a c10::Error for any other than float64, float32, bfloat16
/// and float16.
jit::Dtype dtype_of(const torch::Tensor& tensor);
/// True if dtype_of supports the type.
bool is_supported(torch::ScalarType type);
/// The inverse of dtype_of.
torch::ScalarType torch_dtype(jit::Dtype dtype);
/// The dtype in which kernels compute for a parameter: float64 for float64, else float32.
torch::ScalarType real_dtype(jit::Dtype parameter);

/// Wraps kernel memory in a tensor with the parameter's sizes and storage order, in real_dtype. Does not copy or own.
torch::Tensor values_at(void* memory, const torch::Tensor& parameter);

/// True if `values`, of the parameter's sizes, has the parameter's storage order without gaps.
bool is_dense_like(const torch::Tensor& parameter, const torch::Tensor& values);
/// Elements of a tensor without gaps, in storage order: [count]. Shares the memory.
torch::Tensor storage_range(const torch::Tensor& dense, std::int64_t first, std::int64_t count);
/// All elements of `values`, of the parameter's sizes, in the parameter's storage order: [numel]. Shares the memory if
/// that is_dense_like(). The parameter may have gaps in memory.
torch::Tensor in_element_order(const torch::Tensor& parameter, const torch::Tensor& values);
/// The inverse: elements in the parameter's storage order, as a tensor of its sizes. Shares the memory.
torch::Tensor in_storage_order(const torch::Tensor& elements, const torch::Tensor& parameter);

/// True if parameter, residual, codes and gradient `g` are aligned to 16 bytes, as vector loads need.
bool is_aligned(const jit::StepTensor& tensor, const void* g);

}  // namespace jitstep
