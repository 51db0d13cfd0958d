// Random bits: against published test vectors, and the bits of whole steps against the documented counter.
#include <gtest/gtest.h>

#include <array>

#include "../../templates/lang/philox.cuh"
#include "emulation/emulated_backend.h"
#include "support/plain_steps.h"

namespace jitstep::support {
using namespace emulation;
namespace {

using Words = std::array<std::uint32_t, 4>;

// Philox4x32-7 in kat_vectors of Random123.
struct KnownAnswer {
  Words counter;
  std::array<std::uint32_t, 2> key;
  Words answer;
};
constexpr KnownAnswer kKnownAnswers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x5f6fb709u, 0x0d893f64u, 0x4f121f81u, 0x4f730a48u}},
    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x5207ddc2u, 0x45165e59u, 0x4d8ee751u, 0x8c52f662u}},
    {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
     {0xa4093822u, 0x299f31d0u},
     {0x4dfccabau, 0x190a87f0u, 0xc47362bau, 0xb6b5242au}}};

// A second implementation of the generator.
Words philox_by_definition(Words c, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 7; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * c[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    c = {high(b) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b), high(a) ^ c[3] ^ key[1],
         static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

TEST(Philox, GivesTheKnownAnswers) {
  for (const auto& [counter, key, answer] : kKnownAnswers) {
    EXPECT_EQ(philox_by_definition(counter, key), answer);
    const RandomKey ours{static_cast<uint64>(key[1]) << 32 | key[0], counter[1], counter[2],
                         counter[3] >> 24};
    const uint64 octet = static_cast<uint64>(counter[3] & 0xffffffu) << 32 | counter[0];
    const RandomWords words = philox(ours, octet);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], answer[i]) << i;
  }
}

TEST(Philox, GivesEachOfEightElementsSixteenBits) {
  const RandomWords words = philox({42, 3, 9, 1}, 5);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(words.field(i), words.word[i / 2] >> (16 * (i % 2)) & 0xffffu);
}

// ---- steps --------------------------------------------------------------------------------------

// A rule of two slots that computes nothing, with a codec and a weight format that store the random bits.
const std::map<std::string, std::string> kCoins = {
    {"rules/idle.cuh", R"(// A probe.   modes: train, eval
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::idle {
struct Slots {
  Signed first;
  NonNegative second;
};
struct Rule {
  KHD static void update_state(auto& e, const auto&) { e.first.next = e.second.next = 0; }
  KHD static void update_param(auto&, const auto&) {}
  KHD static void eval(auto&, const auto&) {}
  KHD static void train(auto&, const auto&) {}
};
}
)"},
    {"codecs/coin.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::codecs::coin {
using Code = uint16;
template <class Sign>
struct Codec {
  using Code = coin::Code;
  using Meta = NoMeta;
  static constexpr int block = 1;
  static constexpr bool random = true;
  KHD static real decode(Code, const Meta&) { return 0; }
  KHD static Code encode(real, const Meta&, uint32 bits) { return static_cast<Code>(bits); }
};
}
)"},
    {"weights/coin.cuh", R"(// A probe.   for: bfloat16
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::weights::coin {
template <class Format_>
struct Weights {
  using Format = Format_;
  using Residual = NoResidual;
  static constexpr bool random = true;
  KHD static real load(typename Format::Bits bits) { return Format::load(bits); }
  KHD static typename Format::Bits store(real, uint32 bits) {
    return static_cast<typename Format::Bits>(bits);
  }
};
}
)"}};

// The documented bits of element e of a tensor in step t.
std::uint16_t documented(std::uint64_t seed, std::uint32_t tensor, std::uint64_t t,
                         std::uint32_t stream, std::uint64_t e) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const Words words = philox_by_definition(
      {low(e / 8), tensor, low(t), stream << 24 | low(e / 8 >> 32)}, {low(seed), low(seed >> 32)});
  return static_cast<std::uint16_t>(words[e % 8 / 2] >> (16 * (e % 2)));
}

// The bits of the weights after step t.
void expect_documented_weights(const PlainSteps<std::uint16_t>& steps, std::uint64_t seed,
                               std::int64_t t, std::int64_t offset) {
  for (std::uint32_t id = 0; id < steps.p.size(); ++id)
    for (std::size_t i = 0; i < steps.p[id].size(); ++i) {
      const std::uint64_t e = static_cast<std::uint64_t>(offset) + i;
      ASSERT_EQ(steps.p[id][i], documented(seed, id, t, 0, e)) << "weights at " << e;
    }
}

void expect_documented_bits(OwnTemplates& own, jit::Backend& backend, std::int64_t offset) {
  const jit::OptionValues options("idle", own.catalog);
  jit::KernelSpec spec = plain_spec(options, {"coin", "coin"});
  spec.state.weights = "coin";
  spec.state.dtype = spec.gradient = jit::Dtype::bfloat16;
  PlainSteps<std::uint16_t> steps(own, backend, spec, options, {{5}, {300}, {2, 600}}, offset);
  const std::uint64_t seed = 0x0123456789abcdefull;
  const std::int64_t t = (std::int64_t{1} << 32) + 3;  // only the low half counts
  steps.step(t, seed);
  expect_documented_weights(steps, seed, t, offset);
  for (const jit::Mode mode : {jit::Mode::eval, jit::Mode::train}) {
    steps.switch_mode(mode, t, seed);
    for (const auto& p : steps.p)
      ASSERT_EQ(p, std::vector<std::uint16_t>(p.size(), 0x7fff))
          << "the draw that rounds to nearest";
  }
  for (std::uint32_t id = 0; id < 3; ++id)
    for (std::size_t i = 0; i < steps.p[id].size(); ++i) {
      const std::uint64_t e = static_cast<std::uint64_t>(offset) + i;
      for (std::uint32_t slot = 0; slot < 2; ++slot)
        ASSERT_EQ(steps.codes<std::uint16_t>(id, slot)[i], documented(seed, id, t, slot + 1, e))
            << "slot " << slot << " at " << e;
    }
}

// Element numbers up to the counter's limit.
TEST(RandomBits, OfAStepFollowTheDocumentedCounter) {
  OwnTemplates own(kCoins);
  jit::CpuBackend cpu(own.engine);
  EmulatedBackend gpu(own.engine, 2, BlockOrder::kReverse, LaneOrder::kReverse);
  for (jit::Backend* backend : std::initializer_list<jit::Backend*>{&cpu, &gpu})
    for (const int bits : {32, 35, 40, 55}) {
      const std::int64_t above = std::int64_t{1} << bits;
      expect_documented_bits(own, *backend, above - 264);  // includes the boundary
      expect_documented_bits(own, *backend, above + 8);
    }
}

TEST(RandomBits, OfTheFirstElementsFollowTheDocumentedCounter) {
  OwnTemplates own(kCoins);
  jit::CpuBackend cpu(own.engine);
  expect_documented_bits(own, cpu, 0);
}

}  // namespace
}  // namespace jitstep::support
