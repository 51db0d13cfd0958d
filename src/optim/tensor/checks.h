// Bad input, refused before anything changes: one sentence that says what is wrong and what to do.
#pragma once

#include <torch/types.h>

#include <vector>

#include "optim/tensor/errors.h"

namespace jitstep {

/// What to do about a parameter that neither requires a gradient nor has one. The classes that
/// torch has as well accept it, as torch does, with a warning.
enum class NonTrainablePolicy { warn, refuse };

/// A c10::Error unless it is a leaf that passes check_tensor.
void check_parameter(const torch::Tensor& parameter, const ParameterName& name);

/// A c10::Error unless it is strided, real floating point of a supported dtype, on a device with
/// kernels, and no two of its elements share memory.
void check_tensor(const torch::Tensor& parameter, const ParameterName& name);

/// Refuses, or warns once about, those of parameters that would never be trained; `first` is the first one's name.
void check_frozen(const std::vector<torch::Tensor>& parameters, const ParameterName& first,
                  NonTrainablePolicy frozen);

/// Whether a tensor's memory, if it has any, does not hold its values: torch remembers instead that
/// all of them are zero, or that they are negated.
inline bool is_lazy(const torch::Tensor& tensor) {
  return tensor._is_zerotensor() || tensor.is_neg();
}
/// A lazy tensor's values in memory of their own.
torch::Tensor materialised(const torch::Tensor& tensor);

/// A c10::Error unless the gradient is dense, floating point, of the parameter's shape and device,
/// and both have memory of their own. (A gradient that is the parameter itself will do: each element
/// is read before it is written.) Cheap when all is well.
void check_gradient(const torch::Tensor& parameter, const torch::Tensor& gradient,
                    const ParameterName& name);

}  // namespace jitstep
