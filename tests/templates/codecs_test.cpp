// Block codecs against a search over their values in double, not against themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "../../templates/codecs/int4.cuh"
#include "../../templates/codecs/int4_double.cuh"
#include "../../templates/codecs/int4_rank1.cuh"
#include "../../templates/codecs/int8.cuh"
#include "support/safetensors.h"
#include "templates/neighbors.h"
#include "templates/quick_codes.h"

namespace jitstep::support {
namespace {

// The nearest value of a codebook by linear search. Ties go to the larger value.
template <int N>
int nearest(const Table<N>& book, float x) {
  int best = 0;
  for (int code = 1; code < N; ++code) {
    const double now = std::abs(double(x) - book.x[code]);
    const double before = std::abs(double(x) - book.x[best]);
    if (now < before || (now == before && book.x[code] > book.x[best])) best = code;
  }
  return best;
}

// Floats around the thresholds between adjacent values, including ties.
template <int N>
std::vector<float> thresholds(const Table<N>& book) {
  std::vector<float> all;
  for (int code = 1; code < N; ++code)
    for (float x : around((double(book.x[code - 1]) + book.x[code]) / 2)) all.push_back(x);
  return all;
}

// The code of x in a block whose largest magnitude is `scale`.
template <class Codec>
int code_in(float scale, float x) {
  return Codec::encode(x, Codec::measure({bits_of(scale)}), 0);
}

std::uint32_t crc32(const void* data, std::size_t size) {
  std::uint32_t crc = ~0u;
  for (std::size_t i = 0; i < size; ++i) {
    crc ^= static_cast<const std::uint8_t*>(data)[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

std::vector<float> samples() {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> decade(-8, 0), side(0, 1);
  std::vector<float> x = {0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 0.1f, -0.1f};
  for (int i = 0; i < 20000; ++i)
    x.push_back((side(random) < 0.5f ? -1.0f : 1.0f) * std::pow(10.0f, decade(random)));
  return x;
}

TEST(Codebooks, HaveTheBitsOfTheScalarReference) {
  EXPECT_EQ(crc32(SignedCodebook<8>::values.x, 256 * sizeof(float)), 0x416941e6u);
  EXPECT_EQ(crc32(NonNegativeCodebook<8>::values.x, 256 * sizeof(float)), 0x9495592eu);
  EXPECT_EQ(crc32(SignedCodebook<4>::values.x, 16 * sizeof(float)), 0x59b750eau);
}

// The last bits depend on the computer that built the package's codebooks: torch's vectorized linspace rounds
// differently from its scalar one.
TEST(Codebooks, AreWithinTwoUlpOfThePackages) {
  const auto file = read_safetensors(JITSTEP_TEST_DATA "/golden/codebooks.safetensors");
  int compared = 0;
  for (const auto& [name, table] : file.tensors) {
    const auto values = table.values();
    const float* ours =
        values.size() == 256 && values[0] < 0 ? SignedCodebook<8>::values.x
        : values.size() == 256 && values[0] == 0 && values[1] > 0 && values[1] < 1e-6
            ? NonNegativeCodebook<8>::values.x
        : values.size() == 16 && std::abs(values[0] + 0.8875) < 1e-6 ? SignedCodebook<4>::values.x
                                                                     : nullptr;
    if (ours == nullptr || table.dtype != "F32") continue;
    ++compared;
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_LE(std::abs(static_cast<int>(bits_of(ours[i])) -
                         static_cast<int>(bits_of(static_cast<float>(values[i])))),
                2)
          << name << " " << i;
  }
  EXPECT_GE(compared, 3);
}

TEST(Int8, CodesTheNearestValueTiesUp) {
  using Codec = codecs::int8::Codec<Signed, codecs::int8::Options{}>;
  using Unsigned = codecs::int8::Codec<NonNegative, codecs::int8::Options{.positive_floor = false}>;
  for (float x : samples()) {
    EXPECT_EQ(code_in<Codec>(1.0f, x), nearest(SignedCodebook<8>::values, x)) << x;
    const float y = std::abs(x);
    EXPECT_EQ(code_in<Unsigned>(1.0f, y), nearest(NonNegativeCodebook<8>::values, y)) << y;
  }
}

TEST(Int8, CodesTheNearestValueAroundEveryThreshold) {
  using Codec = codecs::int8::Codec<Signed, codecs::int8::Options{}>;
  using Unsigned = codecs::int8::Codec<NonNegative, codecs::int8::Options{.positive_floor = false}>;
  for (const float scale : {1.0f, 0x1p-40f}) {  // does not change any bit of the normalized value
    for (float x : thresholds(SignedCodebook<8>::values))
      ASSERT_EQ(code_in<Codec>(scale, x * scale), nearest(SignedCodebook<8>::values, x)) << x;
    for (float x : thresholds(NonNegativeCodebook<8>::values))
      ASSERT_EQ(code_in<Unsigned>(scale, x * scale), nearest(NonNegativeCodebook<8>::values, x))
          << x;
  }
  EXPECT_EQ(code_in<Codec>(1.0f, 1.89999992e-06f), 128);  // 5.5e-07, not 3.25e-06
}

TEST(Int8, EveryValueOfTheCodebookRoundTrips) {
  using Codec = codecs::int8::Codec<Signed, codecs::int8::Options{}>;
  using Unsigned = codecs::int8::Codec<NonNegative, codecs::int8::Options{}>;
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(code_in<Codec>(1.0f, SignedCodebook<8>::values.x[code]), code);
    EXPECT_EQ(code_in<Unsigned>(1.0f, NonNegativeCodebook<8>::values.x[code]), code);
  }
}

TEST(Int8, APositiveValueIsNeverCodedAsZeroByDefault) {
  using Floor = codecs::int8::Codec<NonNegative, codecs::int8::Options{}>;
  using None = codecs::int8::Codec<NonNegative, codecs::int8::Options{.positive_floor = false}>;
  for (float x : {1e-9f, 1e-30f, 1e-44f}) {
    EXPECT_EQ(code_in<Floor>(1.0f, x), 1);
    EXPECT_EQ(code_in<None>(1.0f, x), 0);
  }
  EXPECT_EQ(code_in<Floor>(1.0f, 0.0f), 0);
}

// (i + 1) / 16, the values of a non-negative slot.
constexpr Table<16> kLinear = [] {
  Table<16> table{};
  for (int i = 0; i < 16; ++i) table.x[i] = static_cast<float>(i + 1) / 16;
  return table;
}();

TEST(Int4, CodesTheNearestValueTiesUp) {
  using Codec = codecs::int4::Codec<Signed, codecs::int4::Options{}>;
  using Unsigned = codecs::int4::Codec<NonNegative, codecs::int4::Options{}>;
  for (float x : samples()) {
    EXPECT_EQ(code_in<Codec>(1.0f, x), nearest(SignedCodebook<4>::values, x)) << x;
    EXPECT_EQ(code_in<Unsigned>(1.0f, std::abs(x)), nearest(kLinear, std::abs(x))) << x;
  }
}

TEST(Int4, CodesTheNearestValueAroundEveryThreshold) {
  using Codec = codecs::int4::Codec<Signed, codecs::int4::Options{}>;
  using Unsigned = codecs::int4::Codec<NonNegative, codecs::int4::Options{}>;
  for (float x : thresholds(SignedCodebook<4>::values))
    ASSERT_EQ(code_in<Codec>(1.0f, x), nearest(SignedCodebook<4>::values, x)) << x;
  for (float x : thresholds(kLinear))
    ASSERT_EQ(code_in<Unsigned>(1.0f, x), nearest(kLinear, x)) << x;
}

// quick_codes_long_test.cpp has all floats.
TEST(QuickCodes, AreTheCodesAroundEveryThreshold) {
  std::vector<float> all = samples();
  for (float x : thresholds(SignedCodebook<8>::values)) all.push_back(x);
  for (float x : thresholds(NonNegativeCodebook<8>::values)) all.push_back(x);
  for (float x : thresholds(SignedCodebook<4>::values)) all.push_back(x);
  for (float x : thresholds(kLinear)) all.push_back(x);
  for (float x : {0x1p-126f, 0x1p-127f, 0x1p-149f}) all.push_back(x);
  for (float x : all) {
    ASSERT_TRUE(has_quick_code<Int8Signed>(x)) << x;
    ASSERT_TRUE(has_quick_code<Int4Signed>(x)) << x;
    ASSERT_TRUE(has_quick_code<Int8Floor>(std::abs(x))) << x;
    ASSERT_TRUE(has_quick_code<Int8Nearest>(std::abs(x))) << x;
    ASSERT_TRUE(has_quick_code<HalfFloor>(std::abs(x))) << x;
    ASSERT_TRUE(has_quick_code<Int4NonNegative>(std::abs(x))) << x;
  }
}

// Values are normalized by the smaller scale.
TEST(Int4Rank1, CodesAsInt4AroundEveryThreshold) {
  namespace rank1 = codecs::int4_rank1;
  rank1::AuxState memory;
  memory.scale0.next = 0x1p-40f;
  memory.scale1.next = 1;
  const auto is_int4s = [&](auto sign, const std::vector<float>& all) {
    using Sign = decltype(sign);
    for (const float x : all)
      ASSERT_EQ((rank1::Codec<Sign, rank1::Options{}>::encode(x * 0x1p-40f, {}, 0, memory)),
                (code_in<codecs::int4::Codec<Sign, codecs::int4::Options{}>>(1.0f, x)))
          << x;
  };
  is_int4s(Signed{}, thresholds(SignedCodebook<4>::values));
  is_int4s(NonNegative{}, thresholds(kLinear));
}

// The scale of a block, between its largest magnitude and the next step above.
template <class Codec>
float quantized_scale(float largest, float of_tensor) {
  codecs::int4_double::AuxState memory;
  memory.largest.next = memory.largest.prev = of_tensor;
  const auto measured = Codec::measure({bits_of(largest)}, memory);
  const float scale = Codec::scale_of(measured, of_tensor).scale;
  EXPECT_EQ(measured.inverse, inverse_of({scale}));
  return scale;
}

TEST(Int4Double, KeepsScalesInAQuarterOfAPowerOfTwoAbove) {
  using Codec = codecs::int4_double::Codec<Signed, codecs::int4_double::Options{}>;
  for (const float of_tensor : {1.0f, 3e-5f, 7e20f}) {
    EXPECT_EQ(quantized_scale<Codec>(of_tensor, of_tensor), of_tensor);
    for (float relative = 0.9999f; relative > 0x1p-63f; relative *= 0.93f) {
      const float largest = relative * of_tensor;
      const float scale = quantized_scale<Codec>(largest, of_tensor);
      ASSERT_GE(scale, largest * 0.999999f) << relative;
      ASSERT_LE(scale, largest * 1.250001f) << relative;
    }
    EXPECT_EQ(quantized_scale<Codec>(0, of_tensor), 0);
    EXPECT_NEAR(quantized_scale<Codec>(0x1p-70f * of_tensor, of_tensor) / of_tensor, 0x1p-63f,
                0x1p-64f)
        << "the smallest scale";
  }
  EXPECT_EQ(quantized_scale<Codec>(0, 0), 0);
}

TEST(Int4Double, CodesAsInt4AroundEveryThreshold) {
  codecs::int4_double::AuxState memory;
  memory.largest.next = 1;
  const auto is_int4s = [&](auto sign, const std::vector<float>& all) {
    using Sign = decltype(sign);
    using Codec = codecs::int4_double::Codec<Sign, codecs::int4_double::Options{}>;
    const auto measured = Codec::measure({bits_of(0x1p-40f)}, memory);
    for (const float x : all)
      ASSERT_EQ((Codec::encode(x * 0x1p-40f, measured, 0, memory)),
                (code_in<codecs::int4::Codec<Sign, codecs::int4::Options{}>>(1.0f, x)))
          << x;
  };
  is_int4s(Signed{}, thresholds(SignedCodebook<4>::values));
  is_int4s(NonNegative{}, thresholds(kLinear));
}

template <class Codec>
float back_in(float scale, float x) {
  const auto measured = Codec::measure({Codec::key(scale, 0)});
  return Codec::decode(Codec::encode(x, measured, 0), measured);
}

// The codebooks have no -1. Without a signed scale, the largest magnitude loses a ninth (int4) or a 142nd (int8) if it
// is negative.
TEST(SignedScales, StoreTheLargestMagnitudeOfEitherSignExactly) {
  using Int4 = codecs::int4::Codec<Signed, codecs::int4::Options{.signed_scale = true}>;
  using Int8 = codecs::int8::Codec<Signed, codecs::int8::Options{.signed_scale = true}>;
  for (const float x : {3.14159f, -3.14159f, -1e-30f, 0x1.fffffep127f, -0x1.fffffep127f}) {
    EXPECT_EQ(back_in<Int4>(x, x), x);
    EXPECT_EQ(back_in<Int8>(x, x), x);
    EXPECT_NEAR((back_in<codecs::int4::Codec<Signed, codecs::int4::Options{}>>(x, x)) / x,
                x < 0 ? 0.8875 : 1, 1e-6);
  }
}

TEST(SignedScales, NegateTheWholeBlock) {
  using Plain = codecs::int8::Codec<Signed, codecs::int8::Options{}>;
  using Turned = codecs::int8::Codec<Signed, codecs::int8::Options{.signed_scale = true}>;
  for (const float x : samples()) {
    EXPECT_EQ((back_in<Turned>(1, x)), back_in<Plain>(1, x));
    EXPECT_EQ((back_in<Turned>(-1, x)), -back_in<Plain>(1, -x));
  }
  EXPECT_EQ(bits_of(back_in<Turned>(-0.0f, 0)), 0u);
  EXPECT_EQ(bits_of(Turned::measure({Turned::key(-0.0f, 0)}).scale), 0u);
}

TEST(SignedScales, PreferANegativeValueAmongEqualMagnitudes) {
  using Codec = codecs::int4::Codec<Signed, codecs::int4::Options{.signed_scale = true}>;
  EXPECT_GT(Codec::key(-2, 0), Codec::key(2, 0));
  EXPECT_GT(Codec::key(std::nextafter(2.0f, 3.0f), 0), Codec::key(-2, 0));
  EXPECT_EQ(Codec::key(-std::numeric_limits<float>::infinity(), 0), 0u);
}

// The extreme draws. A value of the codebook never changes. A value just above the lower of two neighbors rarely rounds
// up.
TEST(StochasticCodes, RoundUpWithTheProbabilityOfTheDistance) {
  using Codec = codecs::int4::Codec<Signed, codecs::int4::Options{.stochastic = true}>;
  const auto drawn = [](float x, uint32 bits) {
    return int{Codec::encode(x, Codec::measure({bits_of(1.0f)}), bits)};
  };
  for (int code = 0; code < 16; ++code)
    for (const uint32 bits : {0u, 0x7fffu, 0xffffu})
      EXPECT_EQ(drawn(SignedCodebook<4>::values.x[code], bits), code) << bits;
  const float low = SignedCodebook<4>::values.x[10], high = SignedCodebook<4>::values.x[11];
  EXPECT_EQ(drawn(low + (high - low) * 0x1p-15f, 0), 11);
  EXPECT_EQ(drawn(low + (high - low) * 0x1p-15f, 2), 10);
  EXPECT_EQ(drawn(high - (high - low) * 0x1p-15f, 0xfffd), 11);
  EXPECT_EQ(drawn(high - (high - low) * 0x1p-15f, 0xffff), 10);
  EXPECT_EQ(drawn(-1.0f, 0xffff), 0) << "below the smallest value";
  EXPECT_EQ(drawn(-1.0f, 0), 0);
}

TEST(BlockCodecs, CodeNonFiniteValuesAsZeroOrTheLargest) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (float x : {inf, -inf, nan}) {
    EXPECT_EQ((code_in<codecs::int8::Codec<Signed, codecs::int8::Options{}>>(1.0f, x)), 127);
    EXPECT_EQ((code_in<codecs::int8::Codec<NonNegative, codecs::int8::Options{}>>(1.0f, x)), 255);
    EXPECT_EQ((code_in<codecs::int4::Codec<Signed, codecs::int4::Options{}>>(1.0f, x)), 7);
    EXPECT_EQ((code_in<codecs::int4::Codec<NonNegative, codecs::int4::Options{}>>(1.0f, x)), 15);
    EXPECT_EQ(magnitude_key(x), 0u);
  }
}

TEST(BlockCodecs, ABlockOfZerosDecodesToPlusZero) {
  for (int code = 0; code < 256; ++code) {
    const float x = codecs::int8::Codec<Signed, codecs::int8::Options{}>::decode(
        static_cast<uint8>(code), {0.0f});
    EXPECT_EQ(bits_of(x), 0u);
  }
}

TEST(BlockCodecs, ABlockTooSmallToDivideByIsABlockOfZeros) {
  const float tiny = 0x1p-140f;
  EXPECT_EQ((code_in<codecs::int8::Codec<Signed, codecs::int8::Options{}>>(tiny, -tiny)), 127);
  EXPECT_EQ((code_in<codecs::int4::Codec<Signed, codecs::int4::Options{}>>(tiny, -tiny)), 7);
  EXPECT_EQ((code_in<codecs::int4::Codec<NonNegative, codecs::int4::Options{}>>(tiny, tiny)), 0);
}

}  // namespace
}  // namespace jitstep::support
