// Properties of every weight format in the folder, with bfloat16 parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "../../templates/lang/formats.cuh"
#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

using Kind = jit::Manifest::Kind;
using Bits = std::vector<std::uint16_t>;

// SGD with bfloat16 gradients and a learning rate of 2^-12.
class EveryWeightFormat : public testing::TestWithParam<std::string> {
 protected:
  // `count` weights of 1 after one step with this gradient.
  Bits after_step(float gradient, std::uint64_t seed, std::int64_t count = 4097) {
    jit::OptionValues options("sgd", own_.catalog);
    options.set("lr", 0x1p-12);
    jit::KernelSpec spec = plain_spec(options);
    spec.state.weights = GetParam();
    spec.state.dtype = spec.gradient = jit::Dtype::bfloat16;
    PlainSteps<std::uint16_t> steps(own_, cpu_, spec, options, {{count}});
    steps.p[0].assign(steps.p[0].size(), kOne);
    steps.g[0].assign(steps.g[0].size(), float_to_bf16(gradient));
    steps.step(1, seed);
    return steps.p[0];
  }
  bool is_random() const { return own_.catalog.weights(GetParam()).random; }

  static constexpr std::uint16_t kOne = 0x3f80;

 private:
  OwnTemplates own_;
  jit::CpuBackend cpu_{own_.engine};
};

TEST_P(EveryWeightFormat, DependsOnTheSeedOnlyIfItIsStochastic) {
  const Bits once = after_step(-5, 1);
  EXPECT_EQ(after_step(-5, 1), once);
  EXPECT_EQ(after_step(-5, 2) != once, is_random());
}

TEST_P(EveryWeightFormat, DoesNotChangeWeightsThatDoNotMove) {
  for (const Bits& p : {after_step(0, 1), after_step(0, 2)}) EXPECT_EQ(p, Bits(p.size(), kOne));
}

// The step is a sixteenth of an ulp, which rounding to nearest loses. With stochastic rounding, the mean of 2^16 draws
// is within five standard deviations.
TEST_P(EveryWeightFormat, RoundsToNearestOrIsExactInTheMean) {
  constexpr std::int64_t kCount = 1 << 16;
  constexpr double kFraction = 1.0 / 16;
  double ups = 0;
  for (const std::uint16_t bits : after_step(-0x1p-7f * 0x1p12f / 16, 3, kCount)) {
    ASSERT_TRUE(bits == kOne || bits == kOne + 1);
    ups += bits - kOne;
  }
  const double deviation = std::sqrt(kFraction * (1 - kFraction) / kCount);
  EXPECT_NEAR(ups / kCount, is_random() ? kFraction : 0, is_random() ? 5 * deviation : 0);
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryWeightFormat,
                         testing::ValuesIn(jit::default_catalog().names(Kind::weights)),
                         [](const auto& weights) { return weights.param; });

}  // namespace
}  // namespace jitstep::support
