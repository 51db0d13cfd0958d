// Conversion of weights between formats with a residual.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optim/state/state_buffers.h"

namespace jitstep {

/// True if binding converts from another weight format with a residual, of the same dtype. The parameter is then
/// rounded again, as the new format requires.
bool rewrites_parameter(const StateBuffers& stored, const jit::Plan& plan);

/// "weights from split16 to native, without the residual": what binding does to weights with a residual, for a
/// warning. Empty if the residual stays as it is.
std::string weight_conversion_text(const StateBuffers& stored, const jit::Plan& plan);

/// A copy of the parameter if rewrites_parameter(). Otherwise undefined.
torch::Tensor copy_if_rewritten(const StateBuffers& stored, const jit::Plan& plan,
                                const torch::Tensor& p);
/// Restores the parameter from such a copy, if it is defined.
void put_back(const torch::Tensor& p, const torch::Tensor& copy);

/// Throws a c10::Error if the residual's size or dtype is not that of the weight format for so many elements.
void check_residual(const StateBuffers& stored, std::int64_t elements);

/// The parameter's weights with the residual added: its shape and storage order, in real_dtype. `strides`: the
/// parameter's strides when `stored` was bound. Throws as check_residual.
torch::Tensor weights_of(const StateBuffers& stored, const std::vector<std::int64_t>& strides,
                         const torch::Tensor& p);

/// The residual in the parameter's current storage order. `strides`: the parameter's strides when `stored` was bound.
torch::Tensor reordered_residual(const StateBuffers& stored,
                                 const std::vector<std::int64_t>& strides, const torch::Tensor& p);

/// The residual in the same order, set to zero for elements where `same` is false. `same` has the parameter's sizes.
torch::Tensor masked_residual(const StateBuffers& stored, const std::vector<std::int64_t>& strides,
                              const torch::Tensor& same);

/// Sets the parameter and the residual in `to` to the weights of the parameter in `from`. `strides`: the parameter's
/// strides when `from` was bound. Throws as check_residual; then nothing has changed.
void convert_weights(const StateBuffers& from, const std::vector<std::int64_t>& strides,
                     StateBuffers& to, const torch::Tensor& p);

}  // namespace jitstep
