// The templates' 8-bit floats and torch's dtypes: every value, and rounding of floats of every size.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "../../../templates/lang/formats.cuh"

namespace jitstep::tests {
namespace {

torch::Tensor floats_of(const std::vector<std::uint32_t>& bits) {
  auto* const data = const_cast<std::uint32_t*>(bits.data());
  return torch::from_blob(data, {static_cast<std::int64_t>(bits.size())}, torch::kInt32)
      .clone()
      .view(torch::kFloat32);
}

struct Format {
  float (*load)(uint8);
  uint8 (*store)(float);
  torch::Dtype dtype;
  int least_nan;  // bytes from here to 0x7f are NaNs, with either sign; jitstep writes only 0x7f
};
const Format kE4M3{e4m3_to_float, float_to_e4m3, torch::kFloat8_e4m3fn, 0x7f};
const Format kE5M2{e5m2_to_float, float_to_e5m2, torch::kFloat8_e5m2, 0x7d};

TEST(Float8, HasTorchsValues) {
  for (const Format& format : {kE4M3, kE5M2}) {
    const auto theirs = torch::arange(256).to(torch::kUInt8).view(format.dtype).to(torch::kFloat32);
    for (int byte = 0; byte < 256; ++byte) {
      const float expected = theirs[byte].item<float>();
      const float ours = format.load(static_cast<uint8>(byte));
      EXPECT_EQ(std::isnan(ours), (byte & 0x7f) >= format.least_nan) << byte;
      EXPECT_TRUE(std::isnan(ours) || bits_of(ours) == bits_of(expected)) << byte;
    }
  }
}

// The upper 20 bits of each float. The lower bits are chosen so that ties of both formats and their neighbors occur.
TEST(Float8, RoundsAsTorchDoes) {
  std::vector<std::uint32_t> bits;
  for (std::uint32_t high = 0; high < 1u << 20; ++high)
    for (std::uint32_t low : {0u, 1u, 0xfffu}) bits.push_back(high << 12 | low);
  const auto floats = floats_of(bits);
  for (const Format& format : {kE4M3, kE5M2}) {
    const auto theirs = floats.to(format.dtype).view(torch::kUInt8);
    const auto* const expected = theirs.const_data_ptr<std::uint8_t>();
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const bool is_nan = (expected[i] & 0x7f) >= format.least_nan;
      ASSERT_EQ(format.store(float_of(bits[i])), is_nan ? 0x7f : expected[i]) << float_of(bits[i]);
    }
  }
}

}  // namespace
}  // namespace jitstep::tests
