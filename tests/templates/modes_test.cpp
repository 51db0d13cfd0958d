// Modes of rules between steps: the inputs of `eval` and `train`, and what they must not change.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "emulation/emulated_backend.h"
#include "jit/step/convert.h"
#include "jitstep/jit/error.h"
#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

using jit::Mode;

// eval: the parameter becomes the slot's value. train: it becomes values from `prepare`, the step number and a step
// counter.
constexpr const char* kShowing = R"(// A probe.   modes: train, eval
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::showing {
struct Slots {
  Signed m;
};
struct Scalars { real t, steps; };
struct AuxState {
  Entry<tensor> steps;
};
struct Rule {
  KHD static Scalars prepare(const NoHyper&, int64 t, AuxState& m) {
    m.steps.next = m.steps.prev + 1;
    return {static_cast<real>(t), m.steps.next};
  }
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.m.prev + e.g; }
  KHD static void update_param(auto&, const auto&) {}
  KHD static void eval(auto& e, const auto&) { e.p = e.m.prev; }
  KHD static void train(auto& e, const auto& c) { e.p = c.t + 1000 * c.steps; }
};
}
)";
// The parameter becomes the number of steps in shared state.
constexpr const char* kCounting = R"(// A probe.   modes: train, eval
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::counting {
struct Scalars { real rounds; };
struct AuxState {
  Entry<all, double> rounds;
};
struct Rule {
  KHD static Scalars prepare(const NoHyper&, int64, AuxState& m) {
    m.rounds.next = m.rounds.prev + 1;
    return {static_cast<real>(m.rounds.next)};
  }
  KHD static void update_param(auto& e, const auto&) { e.p -= e.g; }
  KHD static void eval(auto& e, const auto& c) { e.p = c.rounds; }
  KHD static void train(auto& e, const auto& c) { e.p = -c.rounds; }
};
}
)";
// The parameter does not change.
constexpr const char* kStaying = R"(// A probe.   modes: train, eval
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::staying {
struct Rule {
  KHD static void update_param(auto& e, const auto&) { e.p -= e.g; }
  KHD static void eval(auto&, const auto&) {}
  KHD static void train(auto&, const auto&) {}
};
}
)";

std::string extension(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(JITSTEP_TEST_DATA "/templates/extensions/" + name).rdbuf();
  return text.str();
}

class Modes : public testing::Test {
 protected:
  OwnTemplates own{{{"rules/showing.cuh", kShowing},
                    {"rules/staying.cuh", kStaying},
                    {"rules/counting.cuh", kCounting},
                    {"rules/averaged_iterate.cuh", extension("averaged_iterate.cuh")},
                    {"codecs/tensor_scale8.cuh", extension("tensor_scale8.cuh")},
                    {"weights/master32.cuh", extension("master32.cuh")}}};
  jit::CpuBackend cpu{own.engine};
  emulation::EmulatedBackend gpu{own.engine, 2, emulation::BlockOrder::kReverse,
                                 emulation::LaneOrder::kReverse};
};

template <class Steps>
void step(Steps& steps, std::int64_t t) {
  for (std::size_t i = 0; i < steps.g.size(); ++i)
    for (std::size_t k = 0; k < steps.g[i].size(); ++k)
      steps.g[i][k] = std::sin(static_cast<float>(t * 1000 + k * (i + 1)));
  steps.step(t);
}

TEST_F(Modes, FollowTheFormulasExactly) {
  const jit::OptionValues options("averaged_iterate", own.catalog);
  PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{0}, {257}});
  for (float& x : steps.p[1]) x = 1;
  for (int t = 1; t <= 3; ++t) step(steps, t);
  const std::vector<float> y = steps.p[1];
  const float* const z = steps.codes<float>(1, 0);
  steps.switch_mode(Mode::eval, 3);
  const std::vector<float> x = steps.p[1];
  steps.switch_mode(Mode::train, 3);
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(x[i], std::fma(static_cast<float>(1 - 1 / 0.9), z[i] - y[i], y[i])) << i;
    ASSERT_EQ(steps.p[1][i], std::fma(static_cast<float>(1 - 0.9), z[i] - x[i], x[i])) << i;
    ASSERT_NEAR(steps.p[1][i], y[i], 1e-6) << "and back";
  }
}

TEST_F(Modes, ReadTheCurrentStateInEveryCodec) {
  const jit::OptionValues options("showing", own.catalog);
  for (jit::Backend* backend : std::initializer_list<jit::Backend*>{&cpu, &gpu})
    for (const char* codec : {"fp32", "int4", "fp8_norm", "tensor_scale8"}) {
      const jit::KernelSpec spec = plain_spec(options, {codec});
      PlainSteps<float> steps(own, *backend, spec, options, {{300}});
      for (int t = 1; t <= 3; ++t) {
        step(steps, t);
        steps.switch_mode(Mode::eval, t);
        std::vector<float> decoded(300);
        jit::decode_slot(*backend, {steps.plan(), steps.tensor(0), t}, 0, decoded.data());
        ASSERT_EQ(steps.p[0], decoded) << codec << " after step " << t;
        ASSERT_GT(std::abs(decoded[7]), 0);
      }
    }
}

TEST_F(Modes, HaveTheScalarsOfTheLastStepInEveryCall) {
  const jit::OptionValues options("showing", own.catalog);
  PlainSteps<float> steps(own, cpu, plain_spec(options), options, {{3}});
  for (int t = 1; t <= 3; ++t) {
    step(steps, t);
    for (int again = 0; again < 2; ++again) {
      steps.switch_mode(Mode::train, t);
      EXPECT_EQ(steps.p[0], std::vector<float>(3, static_cast<float>(1001 * t))) << again;
    }
  }
}

TEST_F(Modes, ReadSharedStateOfTheLastStepAndDoNotChangeIt) {
  const jit::OptionValues options("counting", own.catalog);
  const jit::Plan plan = jit::resolve(options, {"fp32"});
  const jit::StateStorage state(cpu, plan, options, {3});
  jit::SharedState shared = jit::make_shared_state(cpu, options);
  std::vector<float> p(3), g(3);
  jit::Step step(cpu, {{plan, {state.tensor(p.data())}}}, &shared);
  for (int t = 1; t <= 3; ++t) {
    step.run({{.g = g.data()}}, {options.at_step(t)});
    step.run(Mode::eval, {{}}, {options.at_step(t)});
    EXPECT_EQ(p, std::vector<float>(3, t));
    step.run(Mode::train, {{}}, {options.at_step(t)});
    EXPECT_EQ(p, std::vector<float>(3, -t));
    EXPECT_EQ(shared.steps, t);
    EXPECT_EQ(*shared.now(), t);
  }
}

TEST_F(Modes, DoNotChangeTheResidualOfAWeightFormat) {
  const jit::OptionValues options("staying", own.catalog);
  jit::KernelSpec spec = plain_spec(options);
  spec.state.weights = "master32";
  spec.state.dtype = spec.gradient = jit::Dtype::bfloat16;
  PlainSteps<std::uint16_t> steps(own, cpu, spec, options, {{40}});
  for (auto& x : steps.p[0]) x = 0x3f80;  // 1
  for (auto& x : steps.g[0]) x = 0x3a80;  // 1/1024, too small for 1 - x in bfloat16
  steps.step(1);
  const auto* const masters = static_cast<const float*>(steps.tensor(0).residual);
  const std::vector<float> before(masters, masters + 40);
  EXPECT_EQ(before, std::vector<float>(40, 1 - 1.0f / 1024));
  const auto p = steps.p;
  for (const Mode mode : {Mode::eval, Mode::train}) steps.switch_mode(mode, 1);
  EXPECT_EQ(std::vector<float>(masters, masters + 40), before);
  EXPECT_EQ(steps.p, p);
}

// Two tensors of two kernels. One rule has modes.
TEST_F(Modes, DoNotChangeBatchesOfOtherRules) {
  const jit::OptionValues with("showing", own.catalog), without("sgd", own.catalog);
  std::vector<jit::Batch> batches;
  std::vector<std::unique_ptr<jit::StateStorage>> states;
  std::vector<float> p(6, 5), g(6, 1);
  for (const jit::OptionValues* options : {&without, &with}) {
    const jit::Plan plan = jit::resolve(*options, {"fp32"});
    states.push_back(
        std::make_unique<jit::StateStorage>(cpu, plan, *options, std::vector<std::int64_t>{3}));
    const int id = static_cast<int>(batches.size());
    batches.push_back({plan, {states.back()->tensor(p.data() + 3 * id, id)}});
  }
  jit::Step step(cpu, batches);
  const std::vector<HyperParams> sets = {without.at_step(1), with.at_step(1)};
  step.run({{.g = g.data(), .hyper_index = 0}, {.g = g.data(), .hyper_index = 1}}, sets);
  const std::vector<float> stepped = p;
  step.run(Mode::eval, {{.hyper_index = 0}, {.hyper_index = 1}}, sets);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(p[i], stepped[i]);
  for (int i = 3; i < 6; ++i) EXPECT_EQ(p[i], 1) << "the slot, which is the sum of the gradients";
}

TEST_F(Modes, ThrowForInvalidInputsBeforeAnythingChanges) {
  const jit::OptionValues options("showing", own.catalog);
  const jit::Plan plan = jit::resolve(options, {"fp32"});
  const jit::StateStorage state(cpu, plan, options, {3});
  std::vector<float> p(3, 5), g(3, 1);
  jit::Step step(cpu, {{plan, {state.tensor(p.data())}}});
  const auto refused = [&](const std::vector<jit::StepInput>& inputs, std::int64_t t) {
    try {
      step.prepare(Mode::eval, inputs, {options.at_step(t)});
    } catch (const jit::Error& error) {
      EXPECT_THROW(step.launch(), jit::Error) << "nothing is prepared";
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused({{.hyper_index = 1}}, 1),
            "invalid step input 0 (tensor with id 0): hyper_index is 1, but the number of "
            "HyperParams is 1");
  EXPECT_EQ(refused({{}}, 0),
            "HyperParams 0 of the step have the step number 0. Step numbers start at 1.");
  EXPECT_EQ(p, std::vector<float>(3, 5));
  EXPECT_EQ(refused({{}}, 1), "");
  step.prepare({{.g = g.data()}}, {options.at_step(1)});
  step.launch();
  EXPECT_EQ(p, std::vector<float>(3, 5)) << "the last prepared action is launched, which is a step";
}

}  // namespace
}  // namespace jitstep::support
