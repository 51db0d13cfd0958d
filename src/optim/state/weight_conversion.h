// Weights from what one format keeps beside the parameter to what another one does.
#pragma once

#include <cstdint>
#include <vector>

#include "jitstep/state_buffers.h"

namespace jitstep {

/// Whether a kernel takes over weights that another format, of the same dtype, keeps beside the parameter. The parameter
/// is then rounded anew, as the kernel's format does it.
bool rewrites_parameter(const StateBuffers& held, const jit::Plan& plan);

/// A copy of a parameter that is going to be; undefined if it is not.
torch::Tensor copy_if_rewritten(const StateBuffers& held, const jit::Plan& plan,
                                const torch::Tensor& p);
/// Makes it what such a copy says, if there is one.
void put_back(const torch::Tensor& p, const torch::Tensor& copy);

/// A c10::Error if what is kept beside a parameter of so many elements is not what its format keeps.
void check_extra(const StateBuffers& held, std::int64_t elements);

/// The weights that what is kept makes of a parameter: of its shape and order, as wide as the arithmetic. `strides`: those
/// that it had when `held` was kept. A c10::Error as from check_extra.
torch::Tensor weights_of(const StateBuffers& held, const std::vector<std::int64_t>& strides,
                         const torch::Tensor& p);

/// What is kept, in the order that the parameter's elements have now.
torch::Tensor reordered_residual(const StateBuffers& held, const std::vector<std::int64_t>& strides,
                                 const torch::Tensor& p);

/// What is kept, in the same order, with zeros beside the elements where `same`, of the parameter's sizes, is false.
torch::Tensor extra_where(const StateBuffers& held, const std::vector<std::int64_t>& strides,
                          const torch::Tensor& same);

/// Sets the parameter and what `to` keeps beside it to the weights that `from` makes of the parameter. `strides`: those
/// that it had when `from` was kept. A c10::Error as from check_extra; then nothing has changed.
void convert_weights(const StateBuffers& from, const std::vector<std::int64_t>& strides,
                     StateBuffers& to, const torch::Tensor& p);

}  // namespace jitstep
