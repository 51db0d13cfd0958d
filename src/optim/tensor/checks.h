// Validation of parameters and gradients. All checks run before anything changes.
#pragma once

#include <torch/types.h>

#include <vector>

#include "optim/tensor/errors.h"

namespace jitstep {

/// Policy for a parameter that neither requires a gradient nor has one. Classes that torch also has
/// accept it with a warning, because torch accepts it.
enum class NonTrainablePolicy { warn, refuse };

/// Throws a c10::Error unless the parameter is a leaf that passes check_tensor.
void check_parameter(const torch::Tensor& parameter, const ParameterName& name);

/// Throws a c10::Error unless the tensor is strided, has a supported floating-point dtype, is on a device
/// with kernels, and no two of its elements share memory.
void check_tensor(const torch::Tensor& parameter, const ParameterName& name);

/// Checks for parameters that would never be trained. Policy `refuse`: throws a c10::Error. Policy `warn`: one warning
/// per call, for all of them. `first` names parameters[0].
void check_frozen(const std::vector<torch::Tensor>& parameters, const ParameterName& first,
                  NonTrainablePolicy policy);

/// One warning for all parameters that a list has more than once. `first` names parameters[0].
void warn_of_repeated(const std::vector<torch::Tensor>& parameters, const ParameterName& first);

/// True if the tensor's storage does not hold its values: torch only marks it as all zero, or as negated.
inline bool is_lazy(const torch::Tensor& tensor) {
  return tensor._is_zerotensor() || tensor.is_neg();
}
/// The values of a lazy tensor in a new tensor.
torch::Tensor materialized(const torch::Tensor& tensor);

/// Throws a c10::Error unless the gradient is dense, has a supported floating-point dtype and the
/// parameter's shape and device, and the two share no memory. The gradient may be the parameter itself,
/// because each element is read before it is written. Costs a few comparisons for a valid gradient.
void check_gradient(const torch::Tensor& parameter, const torch::Tensor& gradient,
                    const ParameterName& name);
/// The part of check_gradient() about memory, for a gradient with the metadata of one that passed it.
void check_gradient_memory(const torch::Tensor& parameter, const torch::Tensor& gradient,
                           const ParameterName& name);

}  // namespace jitstep
