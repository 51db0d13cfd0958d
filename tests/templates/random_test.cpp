// Random bits: against published test vectors, and the bits of whole steps against the documented counter.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "../../templates/lang/random.cuh"
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

// ---- numbers of a rule -------------------------------------------------------------------------

TEST(RandomNumbers, OfARuleAreWordsOfACounterPerElement) {
  const RandomKey key{0x0123456789abcdefull, 3, 9, 77};
  const std::int64_t element = (std::int64_t{5} << 32) + 123;
  for (int k = 0; k < 256; ++k) {
    const Words words = philox_by_definition(
        {123, 3, 9, static_cast<std::uint32_t>(64 + k / 4) << 24 | 5}, {0x89abcdefu, 0x01234567u});
    EXPECT_EQ(random_bits(key, element, k), words[static_cast<std::size_t>(k) % 4]) << k;
  }
}

TEST(RandomNumbers, UniformOnesAreMultiplesOfTwoToTheMinus24) {
  EXPECT_EQ(uniform_of(0), 0);
  EXPECT_EQ(uniform_of(0xffu), 0);
  EXPECT_EQ(uniform_of(0x100u), 0x1p-24f);
  EXPECT_EQ(uniform_of(~0u), 1 - 0x1p-24f);
}

// The formula of Box and Muller, in double.
double normal_by_definition(std::uint32_t a, std::uint32_t b) {
  const double u = (2.0 * (a >> 9) + 1) / (1 << 24), angle = (b >> 8) / double{1 << 23} - 1;
  return std::sqrt(-2 * std::log(u)) * std::cos(3.14159265358979323846 * angle);
}

TEST(RandomNumbers, NormalOnesFollowBoxAndMuller) {
  double worst = 0, sum = 0, squares = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t a = random_bits({1, 2, 3, 0}, i, 0), b = random_bits({1, 2, 3, 0}, i, 1);
    const double x = normal_of(a, b);
    worst = std::max(worst, std::abs(x - normal_by_definition(a, b)));
    sum += x;
    squares += x * x;
  }
  EXPECT_LT(worst, 2e-6);
  EXPECT_NEAR(sum / kCount, 0, 0.01);  // four standard deviations
  EXPECT_NEAR(squares / kCount, 1, 0.013);
  for (const std::uint32_t a : {0u, 0x1ffu, 0x200u, 0x7fffffffu, 0x80000000u, ~0u})
    for (const std::uint32_t b : {0u, 0xffu, 0x100u, 0x3fffffffu, 0x40000000u, 0x80000000u, ~0u})
      EXPECT_NEAR(normal_of(a, b), normal_by_definition(a, b), 2e-6) << a << " " << b;
}

TEST(RandomNumbers, OfDoublePrecisionHaveItsPrecision) {
  for (int i = 0; i < 1000; ++i) {
    const double u = (2 * i + 1) * 0x1p-11, y = i * 0x1p-11;
    EXPECT_NEAR(random_numbers::log2_of(u), std::log2(u), 1e-14);
    EXPECT_NEAR(random_numbers::sine_of_half_turns(y), std::sin(3.14159265358979323846 * y), 4e-16);
  }
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

// A rule that copies its random bits into the parameter, from a pass and from the last launch.
const std::map<std::string, std::string> kDrawing = {{"rules/drawing.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::drawing {
struct Slots {
  Signed m;
};
struct Column {
  real size;
};
struct Reductions {
  Max<columns, 1, Column> column;
};
struct Rule {
  KHD static real bits(const auto& e, int k) { return static_cast<real>(e.random(k)); }
  KHD static void update_state(auto& e, const auto&) { e.m.next = bits(e, 255); }
  KHD static Reals<1> terms(Of<Column>, const auto& e, const auto&) { return {bits(e, 6)}; }
  KHD static Column finalize(Of<Column>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(sum[0])};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = c.column.size == bits(e, 6) ? bits(e, 0) : real(-1);
  }
};
}
)"}};

// Vectors, whose columns have one element.
TEST(RandomBits, OfARuleAreTheSameInEveryPassAndOnEveryTarget) {
  OwnTemplates own(kDrawing);
  jit::CpuBackend cpu(own.engine);
  EmulatedBackend gpu(own.engine, 2, BlockOrder::kReverse, LaneOrder::kReverse);
  const jit::OptionValues options("drawing", own.catalog);
  jit::KernelSpec spec = plain_spec(options);
  spec.state.dtype = spec.gradient = jit::Dtype::float64;
  for (jit::Backend* backend : std::initializer_list<jit::Backend*>{&cpu, &gpu}) {
    constexpr std::int64_t kOffset = (std::int64_t{1} << 32) - 8;
    PlainSteps<double> steps(own, *backend, spec, options, {{5}, {300}}, kOffset);
    steps.step(3, 42);
    for (std::uint32_t id = 0; id < 2; ++id)
      for (std::size_t i = 0; i < steps.p[id].size(); ++i) {
        const RandomKey key{42, id, 3, 0};
        const std::int64_t e = kOffset + static_cast<std::int64_t>(i);
        ASSERT_EQ(steps.p[id][i], random_bits(key, e, 0)) << i;
        ASSERT_EQ(steps.codes<double>(id, 0)[i], random_bits(key, e, 255)) << i;
      }
  }
}

TEST(RandomBits, OfTheFirstElementsFollowTheDocumentedCounter) {
  OwnTemplates own(kCoins);
  jit::CpuBackend cpu(own.engine);
  expect_documented_bits(own, cpu, 0);
}

}  // namespace
}  // namespace jitstep::support
