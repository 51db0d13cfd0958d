// Memory of a device between two guards that must stay as they are, and its image on the host.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "emulation/step_outcome.h"
#include "jitstep/jit/machine.h"

namespace jitstep::emulation {

/// Copies from the device once all launches are done.
using Download = std::function<void(void* to, const void* from, std::size_t bytes)>;

/// `shift`: bytes by which the memory is less aligned than the machine's.
class GuardedBuffer {
 public:
  GuardedBuffer(jit::Machine& machine, std::size_t bytes, std::size_t shift = 0)
      : image_(bytes + shift + 2 * kGuard),
        start_(kGuard + shift),
        size_(bytes),
        memory_(machine.allocate(image_.size())) {}

  std::size_t size() const { return size_; }
  /// Where it lies on the host, and on the device.
  std::byte* host() { return image_.data() + start_; }
  void* device() const { return static_cast<std::byte*>(memory_.get()) + start_; }
  /// Makes the device hold what the host does.
  void send(jit::Machine& machine) const {
    machine.upload(memory_.get(), image_.data(), image_.size());
  }
  /// What the device holds now, with the guards.
  std::vector<std::byte> kept(const Download& download) const {
    std::vector<std::byte> bytes(size_ + 2 * kGuard);
    download(bytes.data(), static_cast<std::byte*>(memory_.get()) + start_ - kGuard, bytes.size());
    return bytes;
  }

 private:
  static constexpr std::size_t kGuard = KeptBuffer::kGuard;

  std::vector<std::byte> image_;
  std::size_t start_, size_;
  std::shared_ptr<void> memory_;
};

}  // namespace jitstep::emulation
