// Detects changes of a tensor's storage and metadata. Inline, because each step checks every tensor.
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/types.h>

#include <bit>
#include <cstdint>

namespace jitstep {

/// Storage and metadata of a tensor when a kernel's tables were built. Other owners of the tensor may change its
/// storage, sizes or dtype, so each step calls `same_storage`. A default fingerprint matches no tensor, not even an
/// undefined one.
class TensorFingerprint {
 public:
  /// With `write`, a copy-on-write tensor is separated now, before the step writes to it.
  enum class Access { read, write };

  TensorFingerprint() = default;
  explicit TensorFingerprint(const torch::Tensor& tensor, Access access = Access::write);

  /// True if layout, laziness, device, dtype, sizes and strides are unchanged.
  bool same_metadata(const torch::Tensor& tensor) const {
    const c10::TensorImpl& now = *tensor.unsafeGetTensorImpl();
    return same_kind(now) && (!tensor.defined() || (now.device() == device_ && same_layout(now)));
  }
  /// True if in addition the data pointer, the size of the storage and the storage offset are unchanged.
  bool same_storage(const torch::Tensor& tensor) const {
    const c10::TensorImpl& now = *tensor.unsafeGetTensorImpl();
    if (!same_kind(now)) return false;
    return !tensor.defined() || (same_layout(now) && same_memory(now));
  }
  /// Becomes the fingerprint of a tensor with the same metadata.
  void follow_memory(const torch::Tensor& tensor) {
    memory_ = memory_of(*tensor.unsafeGetTensorImpl());
  }

 private:
  struct Memory {
    const void* data = nullptr;  // of the storage
    std::size_t bytes = 0;
    std::int64_t offset = 0;
    bool operator==(const Memory&) const = default;
  };

  bool same_kind(const c10::TensorImpl& now) const { return now.key_set() == keys_; }
  bool same_layout(const c10::TensorImpl& now) const;
  bool same_memory(const c10::TensorImpl& now) const;
  Memory memory_of(const c10::TensorImpl& tensor) const;

  c10::DispatchKeySet keys_;  // layout, device type, laziness. Empty for a default fingerprint.
  caffe2::TypeMeta dtype_;
  c10::Device device_ = c10::kCPU;
  Access access_ = Access::write;
  Memory memory_;
  c10::SmallVector<std::int64_t, 8> layout_;  // size and stride of each dimension
};

inline bool TensorFingerprint::same_layout(const c10::TensorImpl& now) const {
  if (now.dtype() != dtype_) return false;
  const auto sizes = now.sizes(), strides = now.strides();
  if (2 * sizes.size() != layout_.size()) return false;
  const std::int64_t* known = layout_.data();
  for (std::size_t d = 0; d < sizes.size(); ++d, known += 2) {
    if (sizes[d] != known[0]) return false;
    if (strides[d] != known[1]) return false;
  }
  return true;
}

inline TensorFingerprint::Memory TensorFingerprint::memory_of(const c10::TensorImpl& tensor) const {
  c10::StorageImpl* const storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return {};
  // First, so that compilers use the check of custom sizes in same_layout() for it.
  const std::int64_t offset = tensor.storage_offset();
  const void* const data = access_ == Access::write ? storage->mutable_data() : storage->data();
  return {data, storage->nbytes(), offset};
}

// The device of the storage is that of the tensor, and costs fewer checks.
inline bool TensorFingerprint::same_memory(const c10::TensorImpl& now) const {
  const c10::StorageImpl* const storage = now.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return memory_ == Memory{} && now.device() == device_;
  return memory_of(now) == memory_ &&
         std::bit_cast<std::uint16_t>(storage->device()) == std::bit_cast<std::uint16_t>(device_);
}

}  // namespace jitstep
