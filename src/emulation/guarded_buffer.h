// A device buffer between two guard regions that kernels must not change, and its image on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "emulation/step_outcome.h"
#include "jit/base/text.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/value.h"

namespace jitstep::emulation {

/// Copies from the device after all launches have finished.
using Download = std::function<void(void* to, const void* from, std::size_t bytes)>;

/// `shift`: offset in bytes that reduces the alignment of the back end's memory.
class GuardedBuffer {
 public:
  GuardedBuffer(jit::Backend& backend, std::size_t bytes, std::size_t shift = 0)
      : image_(bytes + shift + 2 * kGuard, kUntouched),
        start_(kGuard + shift),
        size_(bytes),
        memory_(backend.allocate(image_.size())) {
    std::fill_n(host(), bytes, std::byte{0});
  }

  std::size_t size() const { return size_; }
  /// The address of the first element on the host, and on the device.
  std::byte* host() { return image_.data() + start_; }
  void* device() const { return static_cast<std::byte*>(memory_.get()) + start_; }
  /// Copies the host image to the device.
  void send(jit::Backend& backend) const {
    backend.upload(memory_.get(), image_.data(), image_.size());
  }
  /// The current content on the device, with the guards. Throws an Error that names the buffer if a guard has changed.
  std::vector<std::byte> content(const Download& download, const std::string& name) const {
    std::vector<std::byte> bytes(size_ + 2 * kGuard);
    download(bytes.data(), static_cast<std::byte*>(memory_.get()) + start_ - kGuard, bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i == kGuard) i += size_;
      if (bytes[i] != kUntouched)
        throw jit::Error(jit::str_cat("the kernel writes outside of the memory of ", name,
                                      ", to byte ",
                                      static_cast<std::int64_t>(i) - std::int64_t{kGuard}));
    }
    return bytes;
  }

 private:
  static constexpr std::size_t kGuard = StoredBuffer::kGuard;
  static constexpr std::byte kUntouched{0xa7};

  std::vector<std::byte> image_;
  std::size_t start_, size_;
  std::shared_ptr<void> memory_;
};

/// Rounds toward zero. Values of 65536 and more become infinity.
inline std::uint16_t to_float16(double value) {
  const unsigned sign = std::signbit(value) ? 0x8000u : 0;
  const double size = std::fabs(value);
  const auto with_sign = [sign](unsigned bits) { return static_cast<std::uint16_t>(sign | bits); };
  if (std::isnan(value)) return with_sign(0x7e00);
  if (size >= 65536) return with_sign(0x7c00);
  if (size < std::ldexp(1.0, -14)) return with_sign(static_cast<unsigned>(std::ldexp(size, 24)));
  const int exponent = std::ilogb(size);
  const auto significand = static_cast<unsigned>(std::ldexp(size, 10 - exponent));
  return with_sign((static_cast<unsigned>(exponent + 14) << 10) + significand);
}

/// Writes a test value: exact for float64, rounded for float32, truncated for bfloat16 and float16.
inline void put(std::byte* to, jit::Dtype dtype, double value) {
  const float narrow = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &narrow, 4);
  if (dtype == jit::Dtype::float64) std::memcpy(to, &value, 8);
  if (dtype == jit::Dtype::float32) std::memcpy(to, &narrow, 4);
  const auto high = static_cast<std::uint16_t>(bits >> 16);
  if (dtype == jit::Dtype::bfloat16) std::memcpy(to, &high, 2);
  const std::uint16_t half = to_float16(value);
  if (dtype == jit::Dtype::float16) std::memcpy(to, &half, 2);
}

}  // namespace jitstep::emulation
