// What a tensor is and where it lies. Asked of every tensor in every step: inline, without calls.
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/types.h>

namespace jitstep {

/// What kernels were told about a tensor. Whoever holds it may give it other memory, sizes or another dtype:
/// `holds` is asked before every step. By default of no tensor, not even an undefined one.
class TensorFingerprint {
 public:
  /// A copy-on-write tensor becomes separate before it is written.
  enum class Access { read, write };

  TensorFingerprint() = default;
  explicit TensorFingerprint(const torch::Tensor& tensor, Access access = Access::write);

  /// Whether the tensor is what it was: strided or not, lazy or not, device, dtype, sizes and strides.
  bool same_metadata(const torch::Tensor& tensor) const;
  /// Whether it also lies where it lay.
  bool same_storage(const torch::Tensor& tensor) const {
    return same_metadata(tensor) && memory_of(tensor) == memory_;
  }

 private:
  struct Memory {
    const void* data = nullptr;  // of the storage
    std::size_t bytes = 0;
    std::int64_t offset = 0;
    bool operator==(const Memory&) const = default;
  };

  Memory memory_of(const torch::Tensor& tensor) const;

  c10::DispatchKeySet keys_;  // layout, kind of device, lazy or not; of no tensor there are none
  caffe2::TypeMeta dtype_;
  c10::Device device_ = c10::kCPU;
  Access access_ = Access::write;
  Memory memory_;
  c10::SmallVector<std::int64_t, 8> layout_;  // sizes, then strides
};

inline bool TensorFingerprint::same_metadata(const torch::Tensor& tensor) const {
  const c10::TensorImpl& now = *tensor.unsafeGetTensorImpl();
  if (now.key_set() != keys_) return false;
  if (!tensor.defined()) return true;
  if (now.dtype() != dtype_ || now.device() != device_) return false;
  const auto sizes = now.sizes(), strides = now.strides();
  if (2 * sizes.size() != layout_.size()) return false;
  const std::int64_t* known = layout_.data();
  for (const std::int64_t size : sizes)
    if (size != *known++) return false;
  for (const std::int64_t stride : strides)
    if (stride != *known++) return false;
  return true;
}

inline TensorFingerprint::Memory TensorFingerprint::memory_of(const torch::Tensor& tensor) const {
  if (!tensor.defined()) return {};
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  c10::StorageImpl* const storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return {};
  const void* const data = access_ == Access::write ? storage->mutable_data() : storage->data();
  return {data, storage->nbytes(), impl.storage_offset()};
}

}  // namespace jitstep
