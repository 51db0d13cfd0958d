#include "optim/tensor/errors.h"

#include <torch/types.h>

#include "optim/tensor/kernel_tensors.h"

namespace jitstep {

std::string describe(const torch::Tensor& tensor) {
  const bool known = is_supported(tensor.scalar_type());
  return c10::str(known ? jit::to_string(dtype_of(tensor)) : c10::str(tensor.dtype()), " ",
                  tensor.sizes());
}

std::string describe(const torch::Tensor& parameter, const ParameterName& name) {
  return c10::str("parameter ", name.index, " of group ", name.group, " (", describe(parameter),
                  ")");
}

}  // namespace jitstep
