// Growing device buffers, and tables in them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "jitstep/jit/backend.h"

namespace jitstep::jit {

/// A device buffer that grows on demand. Growing discards the content.
class DeviceBuffer {
 public:
  void reserve(Backend& backend, std::size_t bytes) {
    if (memory_ && bytes <= capacity_) return;
    memory_ = backend.allocate(std::max<std::size_t>(bytes, 1));
    capacity_ = bytes;
  }
  void* data() const { return memory_.get(); }
  void record_stream(Backend& backend) const {
    if (memory_) backend.record_stream(memory_);
  }

 private:
  std::shared_ptr<void> memory_;
  std::size_t capacity_ = 0;
};

/// A table on the device. It is uploaded only after a change. Until then the host copy keeps its address, because a
/// captured copy in a CUDA graph reads it again on each replay.
template <class T>
class DeviceTable {
 public:
  void send(Backend& backend, const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    if (valid_ && sent_.size() == values.size() &&
        (bytes == 0 || std::memcmp(sent_.data(), values.data(), bytes) == 0))
      return;
    valid_ = false;  // stays false if an allocation or upload throws
    buffer_.reserve(backend, bytes);
    sent_ = values;
    if (bytes > 0) backend.upload(buffer_.data(), sent_.data(), bytes);
    valid_ = true;
  }
  /// The host copy.
  const std::vector<T>& values() const { return sent_; }
  const T* data() const { return static_cast<const T*>(buffer_.data()); }
  std::int64_t size() const { return static_cast<std::int64_t>(sent_.size()); }
  void record_stream(Backend& backend) const { buffer_.record_stream(backend); }

 private:
  DeviceBuffer buffer_;
  std::vector<T> sent_;
  bool valid_ = false;  // whether the device has `sent_`
};

}  // namespace jitstep::jit
