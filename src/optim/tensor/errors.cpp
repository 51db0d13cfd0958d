#include "optim/tensor/errors.h"

#include <torch/types.h>

namespace jitstep {

std::string describe(const torch::Tensor& parameter, const ParameterName& name) {
  return c10::str("parameter ", name.index, " of group ", name.group, " (", parameter.dtype(), " ",
                  parameter.sizes(), ")");
}

}  // namespace jitstep
