// Buffers that notice writes outside of them, and test values of each dtype.
#include "emulation/guarded_buffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/step.h"

namespace jitstep::emulation {
namespace {

const Download kCopy = [](void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
};

class GuardedBuffers : public ::testing::TestWithParam<std::ptrdiff_t> {
 protected:
  static constexpr std::size_t kBytes = 24, kShift = 4;

  jit::CpuBackend cpu_{jit::default_engine()};
  GuardedBuffer buffer_{cpu_, kBytes, kShift};
};

TEST_P(GuardedBuffers, NameTheMemoryThatAKernelWritesOutsideOf) {
  buffer_.send(cpu_);
  auto* const device = static_cast<std::byte*>(buffer_.device());
  for (std::size_t i = 0; i < kBytes; ++i) device[i] = std::byte{1};
  EXPECT_EQ(buffer_.content(kCopy, "p").size(), kBytes + 2 * StoredBuffer::kGuard);
  device[GetParam()] = std::byte{0};
  try {
    buffer_.content(kCopy, "tensor 3, p");
    ADD_FAILURE() << "nothing was noticed";
  } catch (const jit::Error& error) {
    const std::string expected = jit::str_cat("tensor 3, p, to byte ", GetParam());
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Byte, GuardedBuffers, ::testing::Values(-64, -1, 24, 87));

TEST(TestValues, OfFloat16AreTruncatedAndIncludeSpecialOnes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::pair<double, unsigned> cases[] = {
      {0.0, 0},           {-0.0, 0x8000},          {1.0, 0x3c00},         {-0.5, 0xb800},
      {65504, 0x7bff},    {-65535, 0xfbff},        {65536, 0x7c00},       {-kInfinity, 0xfc00},
      {NAN, 0x7e00},      {0x1p-14, 0x0400},       {0x1.ffcp-15, 0x03ff}, {0x1p-24, 1},
      {-0x1p-25, 0x8000}, {1 + 0x1.8p-10, 0x3c01}, {0x1.fffp0, 0x3fff}};
  for (const auto& [value, bits] : cases) EXPECT_EQ(to_float16(value), bits) << value;
}

}  // namespace
}  // namespace jitstep::emulation
