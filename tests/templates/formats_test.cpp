// Conversions, random bits and codes against what they are defined by, not against themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "../../templates/codecs/int4.cuh"
#include "../../templates/codecs/int8.cuh"
#include "../../templates/core/philox.cuh"
#include "support/safetensors.h"

namespace jitstep::support {
namespace {

// The nearest of the values of a code book, ties to the larger value, by looking at all of them.
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

TEST(CodeBooks, HaveTheBitsOfTheScalarReference) {
  using namespace codecs;
  EXPECT_EQ(crc32(int8::kSignedBook.x, sizeof int8::kSignedBook.x), 0x416941e6u);
  EXPECT_EQ(crc32(int8::kUnsignedBook.x, sizeof int8::kUnsignedBook.x), 0x9495592eu);
  EXPECT_EQ(crc32(int4::kSignedBook.x, sizeof int4::kSignedBook.x), 0x59b750eau);
}

// Whose last bits are those of the machine they were built on: torch's vectorised linspace rounds
// otherwise than its scalar one.
TEST(CodeBooks, AreThoseOfThePackagesToTwoUnitsInTheLastPlace) {
  const auto file = read_safetensors(JITSTEP_TEST_DATA "/golden/codebooks.safetensors");
  int compared = 0;
  for (const auto& [name, table] : file.tensors) {
    const auto values = table.values();
    const float* ours =
        values.size() == 256 && values[0] < 0 ? codecs::int8::kSignedBook.x
        : values.size() == 256 && values[0] == 0 && values[1] > 0 && values[1] < 1e-6
            ? codecs::int8::kUnsignedBook.x
        : values.size() == 16 && std::abs(values[0] + 0.8875) < 1e-6 ? codecs::int4::kSignedBook.x
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
    EXPECT_EQ(Codec::encode(x, {1.0f}, 0), nearest(codecs::int8::kSignedBook, x)) << x;
    const float y = std::abs(x);
    EXPECT_EQ(Unsigned::encode(y, {1.0f}, 0), nearest(codecs::int8::kUnsignedBook, y)) << y;
  }
}

TEST(Int8, EveryValueOfTheBookComesBackAsItself) {
  using Codec = codecs::int8::Codec<Signed, codecs::int8::Options{}>;
  using Unsigned = codecs::int8::Codec<NonNegative, codecs::int8::Options{}>;
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(Codec::encode(codecs::int8::kSignedBook.x[code], {1.0f}, 0), code);
    EXPECT_EQ(Unsigned::encode(codecs::int8::kUnsignedBook.x[code], {1.0f}, 0), code);
  }
}

TEST(Int8, APositiveValueIsNeverCodedAsZeroUnlessAsked) {
  using Floor = codecs::int8::Codec<NonNegative, codecs::int8::Options{}>;
  using None = codecs::int8::Codec<NonNegative, codecs::int8::Options{.positive_floor = false}>;
  for (float x : {1e-9f, 1e-30f, 1e-44f}) {
    EXPECT_EQ(Floor::encode(x, {1.0f}, 0), 1);
    EXPECT_EQ(None::encode(x, {1.0f}, 0), 0);
  }
  EXPECT_EQ(Floor::encode(0.0f, {1.0f}, 0), 0);
}

TEST(Int4, CodesTheNearestValueTiesUp) {
  using Codec = codecs::int4::Codec<Signed, codecs::int4::Options{}>;
  using Unsigned = codecs::int4::Codec<NonNegative, codecs::int4::Options{}>;
  Table<16> linear{};
  for (int i = 0; i < 16; ++i) linear.x[i] = static_cast<float>(i + 1) / 16;
  for (float x : samples()) {
    EXPECT_EQ(Codec::encode(x, {1.0f}, 0), nearest(codecs::int4::kSignedBook, x)) << x;
    EXPECT_EQ(Unsigned::encode(std::abs(x), {1.0f}, 0), nearest(linear, std::abs(x))) << x;
  }
  for (int i = 0; i < 15; ++i)  // exact ties
    EXPECT_EQ(Unsigned::encode(0.09375f + static_cast<float>(i) / 16, {1.0f}, 0), i + 1);
}

TEST(BlockCodecs, TakeValuesThatAreNotFiniteAsZeroOrTheLargest) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (float x : {inf, -inf, nan}) {
    EXPECT_EQ((codecs::int8::Codec<Signed, codecs::int8::Options{}>::encode(x, {1.0f}, 0)), 127);
    EXPECT_EQ((codecs::int8::Codec<NonNegative, codecs::int8::Options{}>::encode(x, {1.0f}, 0)),
              255);
    EXPECT_EQ((codecs::int4::Codec<Signed, codecs::int4::Options{}>::encode(x, {1.0f}, 0)), 7);
    EXPECT_EQ((codecs::int4::Codec<NonNegative, codecs::int4::Options{}>::encode(x, {1.0f}, 0)),
              15);
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

#ifdef __FLT16_MANT_DIG__  // Clang 14 has no _Float16 for x86-64.
TEST(Float16, ConvertsEveryValueAsTheCompilerDoes) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    _Float16 half;
    const auto pattern = static_cast<uint16>(bits);
    std::memcpy(&half, &pattern, 2);
    const float expected = static_cast<float>(half);
    if (std::isnan(expected)) continue;
    EXPECT_EQ(bits_of(fp16_to_float(pattern)), bits_of(expected)) << bits;
  }
  std::mt19937 random(5);
  for (int i = 0; i < 2000000; ++i) {
    const float x = float_of(random());
    const auto half = static_cast<_Float16>(x);
    uint16 expected;
    std::memcpy(&expected, &half, 2);
    if (std::isnan(x)) expected = static_cast<uint16>((bits_of(x) >> 16 & 0x8000u) | 0x7e00u);
    ASSERT_EQ(float_to_fp16(x), expected) << x;
  }
}
#endif

TEST(BFloat16, RoundsToTheNearestEven) {
  for (unsigned high = 0; high < 0x7f80; high += 7) {
    const uint32 base = high << 16;
    EXPECT_EQ(float_to_bf16(float_of(base)), high);
    EXPECT_EQ(float_to_bf16(float_of(base + 0x7fff)), high);
    EXPECT_EQ(float_to_bf16(float_of(base + 0x8000)), high + (high & 1));
    EXPECT_EQ(float_to_bf16(float_of(base + 0x8001)), high + 1);
  }
  EXPECT_EQ(float_to_bf16(std::nanf("")), 0x7fc0);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
}

TEST(StochasticRounding, GoesUpAsOftenAsTheFractionSays) {
  for (float x : {1.0f, 1.0001f, -3.14159f, 1e-30f, 0.0f, -0.0f, 65504.7f}) {
    const uint32 fraction = bits_of(x) & 0xffffu, low = bits_of(x) >> 16;
    uint32 up = 0;
    for (uint32 random = 0; random < 65536; ++random) {
      const uint16 rounded = float_to_bf16_stochastic(x, random);
      ASSERT_TRUE(rounded == low || rounded == low + 1);
      up += rounded != low;
    }
    EXPECT_EQ(up, fraction) << x;
  }
}

TEST(StochasticRounding, KeepsWhatHasNoFraction) {
  for (uint32 random : {0u, 1u, 65535u}) {
    EXPECT_EQ(float_to_bf16_stochastic(float_of(0x7fffffffu), random), 0x7fc0);
    EXPECT_EQ(float_to_bf16_stochastic(std::numeric_limits<float>::infinity(), random), 0x7f80);
  }
}

// The known answers published with Random123.
TEST(Philox, GivesTheKnownAnswers) {
  const RandomWords zeros = philox({0, 0, 0, 0}, 0);
  EXPECT_EQ(zeros.word[0], 0x5f6fb709u);
  EXPECT_EQ(zeros.word[1], 0x0d893f64u);
  EXPECT_EQ(zeros.word[2], 0x4f121f81u);
  EXPECT_EQ(zeros.word[3], 0x4f730a48u);
}

TEST(Philox, GivesSixteenBitsToEachOfEightElements) {
  const RandomWords words = philox({42, 3, 9, 1}, 5);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(words.field(i), words.word[i / 2] >> (16 * (i % 2)) & 0xffffu);
}

}  // namespace
}  // namespace jitstep::support
