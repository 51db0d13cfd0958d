// Strips of values that a kernel for this CPU rounds to 16 bits, against the conversion of single values.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "../../templates/lang/formats.cuh"
#include "jitstep/jit/engine.h"

namespace jitstep::support {
namespace {

using Bits = std::vector<std::uint16_t>;
constexpr std::size_t kStrip = 32;

constexpr const char* kText = R"(
  #include "kernel/loop/strip.cuh"
  struct Args { const float* x; unsigned short* to; };
  extern "C" [[gnu::visibility("default")]]
  void to_bf16(const void* p, long long begin, long long end) {
    const auto [x, to] = *static_cast<const Args*>(p);
    for (long long i = begin; i < end; i += 32)
      jitstep::store_strip(*reinterpret_cast<const float(*)[32]>(x + i), to + i,
                           [](float one) { return jitstep::float_to_bf16(one); });
  })";

Bits rounded(const std::vector<float>& x) {
  static const auto kernel = jit::default_engine().kernel(kText, "strips", jit::Target::cpu());
  Bits to(x.size());
  const struct {
    const float* x;
    std::uint16_t* to;
  } args = {x.data(), to.data()};
  kernel->cpu("to_bf16")(&args, 0, static_cast<long long>(x.size()));
  return to;
}

Bits expected(const std::vector<float>& x) {
  Bits to;
  for (const float one : x) to.push_back(float_to_bf16(one));
  return to;
}

// In the order of their bits, so that most strips have no value that needs another path.
TEST(Strips, HaveTheBitsOfSingleValuesAroundEveryThreshold) {
  std::vector<float> x;
  for (std::uint32_t high = 0; high < 1u << 16; ++high)
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x1234u, 0xc321u})
      x.push_back(float_of(high << 16 | low));
  EXPECT_EQ(rounded(x), expected(x));
}

TEST(Strips, HaveTheBitsOfSingleValuesBesideASpecialOne) {
  std::vector<float> x;
  for (const std::uint32_t special :
       {0x7fc00000u, 0xffc12345u, 0x7f800001u, 0x7f800000u, 1u, 0x80000001u, 0x807fffffu, 0u})
    for (std::size_t at = 0; at < kStrip; ++at)
      for (std::size_t i = 0; i < kStrip; ++i)
        x.push_back(i == at ? float_of(special) : 1.01f + 0.1f * static_cast<float>(i));
  EXPECT_EQ(rounded(x), expected(x));
}

}  // namespace
}  // namespace jitstep::support
