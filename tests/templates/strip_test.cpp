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

constexpr const char* kText =
    "#include \"kernel/loop/strip.cuh\"\n"
    "#include \"weights/native.cuh\"\n"
    "#include \"weights/stochastic.cuh\"\n"
    R"(
  using namespace jitstep;
  struct Buffers { const void* from; void* to; };
  uint32 draw_of(long long i) { return static_cast<uint32>(i) * 0x9e37u & 0xffffu; }
  template <class W>
  void round(const void* p, long long count) {
    const auto [from, to] = *static_cast<const Buffers*>(p);
    for (long long i = 0; i < count; i += 32) {
      const auto& x = *reinterpret_cast<const float(*)[32]>(static_cast<const float*>(from) + i);
      uint16* const bits = static_cast<uint16*>(to) + i;
      uint16 draws[32];
      for (int k = 0; k < 32; ++k) draws[k] = static_cast<uint16>(draw_of(i + k));
      if constexpr (rounds_strips<W>())
        store_strip<W, kSpecialWeights>(x, draws, bits, [](float one, uint32 draw) { return W::store(one, draw); });
      else
        for (int k = 0; k < 32; ++k) bits[k] = W::store(x[k], draws[k]);
    }
  }
  #define EXPORTED extern "C" [[gnu::visibility("default")]] void
  using namespace weights;
  EXPORTED to_bfloat16(const void* p, long long, long long n) { round<native::Weights<BFloat16>>(p, n); }
  EXPORTED to_float16(const void* p, long long, long long n) { round<native::Weights<Float16>>(p, n); }
  EXPORTED to_random(const void* p, long long, long long n) { round<stochastic::Weights<BFloat16>>(p, n); }
  EXPORTED from_float16(const void* p, long long, long long n) {
    const auto [from, to] = *static_cast<const Buffers*>(p);
    for (long long i = 0; i < n; i += kLeaf) {
      const int count = n - i < kLeaf ? static_cast<int>(n - i) : kLeaf;
      const WidenedRange<Float16> range(from, i, count);
      for (int k = 0; k < count; ++k) static_cast<float*>(to)[i + k] = range[k];
    }
  })";

template <class To, class From>
std::vector<To> converted(const char* function, const std::vector<From>& from) {
  static const auto kernel = jit::default_engine().kernel(kText, "strips", jit::Target::cpu());
  std::vector<To> to(from.size());
  const struct {
    const void* from;
    void* to;
  } args = {from.data(), to.data()};
  kernel->cpu(function)(&args, 0, static_cast<long long>(from.size()));
  return to;
}

// The draw of value i in kText.
std::uint32_t draw_of(std::size_t i) { return static_cast<std::uint32_t>(i) * 0x9e37u & 0xffffu; }

void expect_the_bits_of_single_values(const std::vector<float>& x) {
  Bits bfloat16, float16, random;
  for (const float one : x) {
    random.push_back(float_to_bf16_stochastic(one, draw_of(random.size())));
    bfloat16.push_back(float_to_bf16(one));
    float16.push_back(float_to_fp16(one));
  }
  EXPECT_TRUE(converted<std::uint16_t>("to_random", x) == random);
  EXPECT_TRUE(converted<std::uint16_t>("to_bfloat16", x) == bfloat16);
  EXPECT_TRUE(converted<std::uint16_t>("to_float16", x) == float16);
}

// Fractions equal to the draw, and one more or less.
TEST(Strips, RoundUpIfTheFractionExceedsTheDraw) {
  std::vector<float> x;
  for (std::uint32_t high = 0x3f80; x.size() < 3 << 16; high = (high + 0x0101) & 0x7eff)
    for (const std::uint32_t other : {0u, 1u, 0xffffu})
      x.push_back(float_of((high | 0x0080) << 16 | ((draw_of(x.size()) + other) & 0xffffu)));
  expect_the_bits_of_single_values(x);
}

// In the order of their bits, so that most strips have no value that needs another path.
TEST(Strips, HaveTheBitsOfSingleValuesAroundEveryThreshold) {
  std::vector<float> x;
  for (std::uint32_t high = 0; high < 1u << 16; ++high)
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x1000u, 0x3001u})
      x.push_back(float_of(high << 16 | low));
  expect_the_bits_of_single_values(x);
}

TEST(Strips, HaveTheBitsOfSingleValuesBesideASpecialOne) {
  std::vector<float> x;
  for (const std::uint32_t special : {0x7fc00000u, 0xffc12345u, 0x7f800001u, 0x7f800000u, 1u,
                                      0x80000001u, 0x807fffffu, 0u, 0x477fefffu, 0xc77ff000u})
    for (std::size_t at = 0; at < kStrip; ++at)
      for (std::size_t i = 0; i < kStrip; ++i)
        x.push_back(i == at ? float_of(special) : 1.01f + 0.1f * static_cast<float>(i));
  expect_the_bits_of_single_values(x);
}

// With 0x7c01, which is a signaling NaN, in some ranges. The last range is incomplete.
TEST(Strips, HaveTheValuesOfSingleBits) {
  Bits bits;
  for (std::uint32_t all = 0; all < 1u << 16; ++all)
    bits.push_back(static_cast<std::uint16_t>(all));
  for (std::uint32_t i = 0; i < 45; ++i) bits.push_back(i == 40 ? 0x7c01 : 0x3c01);
  std::vector<std::uint32_t> expected;
  for (const std::uint16_t one : bits) expected.push_back(bits_of(fp16_to_float(one)));
  EXPECT_TRUE(converted<std::uint32_t>("from_float16", bits) == expected);
}

}  // namespace
}  // namespace jitstep::support
