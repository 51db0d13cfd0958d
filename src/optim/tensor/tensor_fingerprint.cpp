#include "optim/tensor/tensor_fingerprint.h"

#include <torch/types.h>

namespace jitstep {

TensorFingerprint::TensorFingerprint(const torch::Tensor& tensor, Access access)
    : keys_(tensor.key_set()), access_(access) {
  if (!tensor.defined()) return;
  dtype_ = tensor.dtype();
  device_ = tensor.device();
  memory_ = memory_of(tensor);
  layout_.append(tensor.sizes().begin(), tensor.sizes().end());
  layout_.append(tensor.strides().begin(), tensor.strides().end());
}

}  // namespace jitstep
