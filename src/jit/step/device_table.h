// Memory of a machine that grows, and tables in it.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "jitstep/jit/backend.h"

namespace jitstep::jit {

/// Memory on the device that grows when it must.
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

/// A table on the device, sent again only when it has changed. What it was sent stays where it is until then, as a
/// copy that was captured reads it again.
template <class T>
class DeviceTable {
 public:
  void send(Backend& backend, const std::vector<T>& values) {
    const std::size_t bytes = values.size() * sizeof(T);
    if (valid_ && sent_.size() == values.size() &&
        (bytes == 0 || std::memcmp(sent_.data(), values.data(), bytes) == 0))
      return;
    valid_ = false;  // until all went well
    buffer_.reserve(backend, bytes);
    sent_ = values;
    if (bytes > 0) backend.upload(buffer_.data(), sent_.data(), bytes);
    valid_ = true;
  }
  const T* data() const { return static_cast<const T*>(buffer_.data()); }
  std::int64_t size() const { return static_cast<std::int64_t>(sent_.size()); }
  void record_stream(Backend& backend) const { buffer_.record_stream(backend); }

 private:
  DeviceBuffer buffer_;
  std::vector<T> sent_;
  bool valid_ = false;  // the device has what was sent
};

}  // namespace jitstep::jit
