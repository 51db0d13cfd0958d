// Messages about two outcomes that differ.
#include "emulation/step_outcome.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "jitstep/jit/error.h"

namespace jitstep::emulation {
namespace {

template <class T>
StoredBuffer buffer_of(const std::string& name, Elements elements, const std::vector<T>& values) {
  StoredBuffer buffer{3, name, elements, sizeof(T), {}};
  buffer.bytes.resize(values.size() * sizeof(T) + 2 * StoredBuffer::kGuard);
  if (!values.empty())
    std::memcpy(&buffer.bytes[StoredBuffer::kGuard], values.data(), values.size() * sizeof(T));
  return buffer;
}

template <class T>
std::string difference_text(Elements elements, const std::vector<T>& one,
                            const std::vector<T>& other) {
  const auto found =
      differences({buffer_of("x", elements, one)}, {buffer_of("x", elements, other)});
  return found.empty() ? "" : to_string(found[0]);
}

TEST(StepOutcomes, EqualOutcomesHaveNoDifference) {
  EXPECT_EQ(difference_text<float>(Elements::float32, {1, 2}, {1, 2}), "");
  EXPECT_EQ(difference_text<float>(Elements::float32, {}, {}), "");
}

TEST(StepOutcomes, DifferencesNameTheFirstElementAndBothValues) {
  EXPECT_EQ(difference_text<float>(Elements::float32, {1, 0.5f, 3}, {1, 0.25f, 4}),
            "tensor 3: x[1] is 0.5 (0x3f000000) and 0.25 (0x3e800000)");
  EXPECT_EQ(difference_text<double>(Elements::float64, {0.1}, {-0.0}),
            "tensor 3: x[0] is 0.1 (0x3fb999999999999a) and -0 (0x8000000000000000)");
  EXPECT_EQ(difference_text<std::uint16_t>(Elements::bfloat16, {0x3f80}, {0x3f81}),
            "tensor 3: x[0] is 1 (0x3f80) and 1.0078125 (0x3f81)");
  EXPECT_EQ(difference_text<std::uint16_t>(Elements::float16, {0x3c00, 0xc001}, {0x3c00, 0x0001}),
            "tensor 3: x[1] is -2.0019531 (0xc001) and 5.9604645e-08 (0x0001)");
  EXPECT_EQ(difference_text<std::uint32_t>(Elements::bytes, {1, 2, 0xab}, {1, 2, 0xac}),
            "tensor 3: x[2] is 0x000000ab and 0x000000ac");
}

TEST(StepOutcomes, DifferencesIncludeTheSignOfZero) {
  EXPECT_EQ(difference_text<float>(Elements::float32, {0.0f}, {-0.0f}),
            "tensor 3: x[0] is 0 (0x00000000) and -0 (0x80000000)");
}

TEST(StepOutcomes, DifferencesNameTheElementOfANibble) {
  EXPECT_EQ(difference_text<std::uint8_t>(Elements::nibbles, {0x21, 0x43}, {0x21, 0x45}),
            "tensor 3: x[2] is 0x03 and 0x05");
  EXPECT_EQ(difference_text<std::uint8_t>(Elements::nibbles, {0x21, 0x43}, {0x21, 0x73}),
            "tensor 3: x[3] is 0x04 and 0x07");
}

TEST(StepOutcomes, DifferencesListEachBuffer) {
  const StepOutcome one = {buffer_of<float>("a", Elements::float32, {1}),
                           buffer_of<float>("b", Elements::float32, {1}),
                           buffer_of<float>("c", Elements::float32, {1})};
  StepOutcome other = one;
  other[0] = buffer_of<float>("a", Elements::float32, {2});
  other[2] = buffer_of<float>("c", Elements::float32, {2});
  const auto found = differences(one, other);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[1].name, "c");
}

TEST(StepOutcomes, DifferencesShowWritesOutsideABuffer) {
  const StoredBuffer one = buffer_of<float>("x", Elements::float32, {1, 2});
  for (const auto& [byte, element] : {std::pair<std::size_t, int>{StoredBuffer::kGuard - 1, -1},
                                      {StoredBuffer::kGuard - 5, -2},
                                      {StoredBuffer::kGuard + 8, 2},
                                      {StoredBuffer::kGuard + 12, 3}}) {
    StoredBuffer other = one;
    other.bytes[byte] = std::byte{0x7f};
    const auto found = differences({one}, {other});
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].outside);
    EXPECT_EQ(found[0].element, element) << byte;
    EXPECT_EQ(found[0].one, "0x00");
    EXPECT_EQ(found[0].other, "0x7f");
  }
}

TEST(StepOutcomes, CountAllWideNansAsOne) {
  StoredBuffer one = buffer_of<float>("x", Elements::float32, {NAN, 1}), other = one;
  other.bytes[StoredBuffer::kGuard] ^= std::byte{1};
  EXPECT_EQ(differences({one}, {other}).size(), 1u);
  one.canonicalize_nans();
  other.canonicalize_nans();
  EXPECT_EQ(differences({one}, {other}).size(), 0u);
  StoredBuffer narrow = buffer_of<std::uint16_t>("x", Elements::bfloat16, {0x7fc0}),
               wrong = buffer_of<std::uint16_t>("x", Elements::bfloat16, {0x7fc1});
  narrow.canonicalize_nans();
  wrong.canonicalize_nans();
  EXPECT_EQ(differences({narrow}, {wrong}).size(), 1u)
      << "the contract defines the only NaN of 16 bits";
}

TEST(StepOutcomes, OutcomesOfDifferentCasesAreNotCompared) {
  const StepOutcome one = {buffer_of<float>("x", Elements::float32, {1})};
  EXPECT_THROW(differences(one, {}), jit::Error);
  EXPECT_THROW(differences(one, {buffer_of<float>("x", Elements::float32, {1, 2})}), jit::Error);
  EXPECT_THROW(differences(one, {buffer_of<float>("y", Elements::float32, {1})}), jit::Error);
}

}  // namespace
}  // namespace jitstep::emulation
