#include "optim/tensor/tensor_place.h"

#include <torch/torch.h>

#include "optim/tensor/memory_overlap.h"

namespace jitstep {
namespace {

const void* data_of(const torch::Tensor& tensor) {
  return has_memory(tensor) ? tensor.mutable_data_ptr() : nullptr;
}

std::size_t storage_bytes_of(const torch::Tensor& tensor) {
  return tensor.has_storage() ? tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes() : 0;
}

}  // namespace

TensorPlace::TensorPlace(const torch::Tensor& tensor) {
  if (!tensor.defined()) return;
  data_ = data_of(tensor);
  storage_bytes_ = storage_bytes_of(tensor);
  dtype_ = tensor.scalar_type();
  device_ = tensor.device();
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
}

bool TensorPlace::holds(const torch::Tensor& tensor) const {
  if (!tensor.defined()) return data_ == nullptr;
  return tensor.layout() == torch::kStrided && tensor.sizes() == sizes_ &&
         tensor.strides() == strides_ && tensor.scalar_type() == dtype_ &&
         tensor.device() == device_ && storage_bytes_of(tensor) == storage_bytes_ &&
         data_of(tensor) == data_;
}

}  // namespace jitstep
