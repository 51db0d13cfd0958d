// Random bits against published vectors.
#include <gtest/gtest.h>

#include <array>

#include "../../templates/core/philox.cuh"

namespace jitstep::support {
namespace {

// Philox4x32-7 in kat_vectors of Random123: counter, key, answer.
struct KnownAnswer {
  std::array<uint32, 4> counter;
  std::array<uint32, 2> key;
  std::array<uint32, 4> answer;
};
constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x5f6fb709u, 0x0d893f64u, 0x4f121f81u, 0x4f730a48u}},
    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x5207ddc2u, 0x45165e59u, 0x4d8ee751u, 0x8c52f662u}},
    {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
     {0xa4093822u, 0x299f31d0u},
     {0x4dfccabau, 0x190a87f0u, 0xc47362bau, 0xb6b5242au}}};

TEST(Philox, GivesTheKnownAnswers) {
  for (const auto& [counter, key, answer] : kKnownAnswers) {
    const RandomKey ours{static_cast<uint64>(key[1]) << 32 | key[0], counter[1], counter[2],
                         counter[3] >> 24};
    const uint64 octet = static_cast<uint64>(counter[3] & 0xffffffu) << 32 | counter[0];
    const RandomWords words = philox(ours, octet);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], answer[i]) << i;
  }
}

TEST(Philox, GivesSixteenBitsToEachOfEightElements) {
  const RandomWords words = philox({42, 3, 9, 1}, 5);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(words.field(i), words.word[i / 2] >> (16 * (i % 2)) & 0xffffu);
}

}  // namespace
}  // namespace jitstep::support
