#include "optim/tensor/tensor_fingerprint.h"

#include <torch/types.h>

namespace jitstep {

TensorFingerprint::TensorFingerprint(const torch::Tensor& tensor, Access access)
    : keys_(tensor.key_set()), access_(access) {
  if (!tensor.defined()) return;
  dtype_ = tensor.dtype();
  device_ = tensor.device();
  memory_ = memory_of(*tensor.unsafeGetTensorImpl());
  for (std::int64_t d = 0; d < tensor.dim(); ++d)
    layout_.append({tensor.size(d), tensor.stride(d)});
}

}  // namespace jitstep
