// Slots, auxiliary state and residuals after a step, compared with values computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

// ---- values too small to store ------------------------------------------------------------------

// Every slot stores the gradient as its new value.
const std::string kStoring = R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::keeper {
struct Slots {
  Signed first;
  Signed second;
  Signed third;
  NonNegative fourth;
};
struct Rule {
  KHD static void update_state(auto& e, const auto&) {
    e.first.next = e.second.next = e.third.next = e.fourth.next = e.g;
  }
  KHD static void update_param(auto& e, const auto&) { e.p = e.first.next; }
};
}
)";

template <class Real>
PlainSteps<Real> after_one_step(OwnTemplates& own, jit::Backend& backend,
                                const std::vector<Real>& values,
                                const std::vector<std::string>& codecs) {
  const jit::OptionValues options("keeper", own.catalog);
  jit::KernelSpec spec = plain_spec(options, codecs);
  if (sizeof(Real) == 8) spec.state.dtype = spec.gradient = jit::Dtype::float64;
  PlainSteps<Real> steps(own, backend, spec, options, {{static_cast<std::int64_t>(values.size())}});
  steps.g[0] = values;
  steps.step(1);
  return steps;
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST(Slots, FlushValuesBelowTheSmallestNormalNumber) {
  const float normal = std::numeric_limits<float>::min();
  const float most = std::nextafter(normal, 0.0f), least = std::nextafter(0.0f, 1.0f);
  const std::vector<float> values = {normal, -normal, most, -most, least, -least, -0.0f, 1.5f};
  OwnTemplates own({{"rules/keeper.cuh", kStoring}});
  jit::CpuBackend cpu(own.engine);
  const auto steps = after_one_step(own, cpu, values, {"fp32", "bf16", "int8", "int4"});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float expected = std::abs(values[i]) < normal ? 0.0f : values[i];
    EXPECT_TRUE(same_bits(steps.codes<float>(0, 0)[i], expected)) << values[i];
    std::uint32_t bits;
    std::memcpy(&bits, &expected, 4);
    EXPECT_EQ(steps.codes<std::uint16_t>(0, 1)[i], bits >> 16) << values[i];
    EXPECT_TRUE(same_bits(steps.p[0][i], values[i])) << "the rule sees what it computed";
  }
  EXPECT_EQ(steps.meta<float>(0, 2)[0], 1.5f);
}

TEST(Slots, ABlockOfSuchValuesIsABlockOfZeros) {
  OwnTemplates own({{"rules/keeper.cuh", kStoring}});
  jit::CpuBackend cpu(own.engine);
  const auto steps =
      after_one_step(own, cpu, std::vector<float>(300, 1e-39f), {"fp32", "bf16", "int8", "int4"});
  for (std::size_t slot : {2u, 3u})
    for (int block = 0; block < 2; ++block)
      EXPECT_TRUE(same_bits(steps.meta<float>(0, slot)[block], 0.0f));
  for (int i = 0; i < 300; ++i) EXPECT_EQ(steps.codes<std::uint8_t>(0, 2)[i], 127);
}

TEST(Slots, OfFloat64ParametersHaveTheLimitOfDouble) {
  const double normal = std::numeric_limits<double>::min(), most = std::nextafter(normal, 0.0);
  const std::vector<double> values = {normal, -normal, 1e-200, 1e-40, most, -most, 5e-324, -0.0};
  OwnTemplates own({{"rules/keeper.cuh", kStoring}});
  jit::CpuBackend cpu(own.engine);
  const auto steps = after_one_step(own, cpu, values, {});
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(same_bits(steps.codes<double>(0, 0)[i], i < 4 ? values[i] : 0.0)) << values[i];
}

// ---- slots and auxiliary state from the first step on -------------------------------------------

// Everything that may have a value before the first step: a slot that starts at an option, a slot that starts at a
// number, auxiliary state that a sum updates, and auxiliary state that `prepare` updates.
const std::string kStarts = R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::starts {
struct Hyper {
  double start = 3;
};
struct Slots {
  Signed m;       // initial: start
  NonNegative v;  // initial: 0.5
};
struct Scalars {
  real count;
};
struct Row {
  real value;
};
struct Reductions {
  Sum<first, 1, Row> row;
};
struct AuxState {
  Entry<first> row;             // initial: 2
  Entry<tensor, double> count;  // initial: 0.25
};
struct Rule {
  KHD static Scalars prepare(const Hyper&, int64, AuxState& m) {
    m.count.next = m.count.prev * 2;
    return {static_cast<real>(m.count.next)};
  }
  KHD static void update_state(auto& e, const auto&) {
    e.m.next = e.m.prev / 2 + e.g;
    e.v.next = e.v.prev / 2 + e.g * e.g;
  }
  KHD static Reals<1> terms(Of<Row>, const auto& e, const auto&) { return {e.g}; }
  KHD static Row finalize(Of<Row>, const Totals<1>& sum, int64, const auto&, AuxState& m) {
    m.row.next = m.row.prev / 2 + static_cast<real>(sum[0]);
    return {m.row.next};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = e.m.next + e.v.next + c.row.value + c.count;
  }
};
}
)";

class Starts : public testing::Test {
 protected:
  Starts()
      : own_({{"rules/starts.cuh", kStarts}}), cpu_(own_.engine), options_("starts", own_.catalog) {
    options_.set("start", -6.0);
    steps_ = std::make_unique<PlainSteps<float>>(own_, cpu_, plain_spec(options_), options_,
                                                 std::vector<std::vector<std::int64_t>>{{3, 5}});
  }

  OwnTemplates own_;
  jit::CpuBackend cpu_;
  jit::OptionValues options_;
  std::unique_ptr<PlainSteps<float>> steps_;
};

// Small binary fractions, so that every operation is exact.
TEST_F(Starts, ThreeStepsFollowTheFormulas) {
  double m[15], v[15], row[3] = {2, 2, 2}, count = 0.25;
  std::fill_n(m, 15, -6.0);
  std::fill_n(v, 15, 0.5);
  for (int t = 1; t <= 3; ++t) {
    double sum[3] = {0, 0, 0};
    for (int i = 0; i < 15; ++i) {
      const double g = (i * 7 + t * 3) % 11 - 5;
      steps_->g[0][i] = static_cast<float>(g);
      m[i] = m[i] / 2 + g;
      v[i] = v[i] / 2 + g * g;
      sum[i / 5] += g;
    }
    const std::vector<double> before(row, row + 3);
    for (int r = 0; r < 3; ++r) row[r] = row[r] / 2 + sum[r];
    count *= 2;
    steps_->step(t);
    for (int i = 0; i < 15; ++i) {
      EXPECT_EQ(steps_->p[0][i], m[i] + v[i] + row[i / 5] + count) << "step " << t << " at " << i;
      EXPECT_EQ(steps_->codes<float>(0, 0)[i], m[i]);
      EXPECT_EQ(steps_->codes<float>(0, 1)[i], v[i]);
    }
    for (int r = 0; r < 3; ++r) {  // the other buffer still has the previous value
      EXPECT_EQ(steps_->aux_state<float>(0, 0, t)[r], row[r]);
      EXPECT_EQ(steps_->aux_state<float>(0, 0, t + 1)[r], before[r]);
    }
    EXPECT_EQ(*steps_->aux_state<double>(0, 1, t), count);
    EXPECT_EQ(*steps_->aux_state<double>(0, 1, t + 1), count / 2);
  }
}

TEST_F(Starts, AMomentWithoutGradientsEndsAtZero) {
  for (int t = 1; t <= 160; ++t) steps_->step(t);
  for (int i = 0; i < 15; ++i) {
    EXPECT_TRUE(same_bits(steps_->codes<float>(0, 0)[i], 0.0f));
    EXPECT_TRUE(same_bits(steps_->codes<float>(0, 1)[i], 0.0f));
  }
}

}  // namespace
}  // namespace jitstep::support
