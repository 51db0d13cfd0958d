// Steps that a graph replays. Each replay must give the same bits as a step that the host launched.
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "emulation/emulated_backend.h"
#include "jit/fixtures.h"
#include "jit/step/capture.h"
#include "jit/step/step_fixtures.h"
#include "jitstep/jit/engine.h"
#include "support/recording_backend.h"

namespace jitstep::jit {
namespace {

using emulation::StepCase;
using support::RecordingBackend;
using testing::error_of;

StepCase step_case(const std::string& rule, NamedValues options = {}) {
  StepCase made;
  made.spec.rule = rule;
  made.spec.state.slots.assign(default_catalog().rule(rule).slots.size(), CodecChoice{"fp32"});
  made.options = std::move(options);
  made.tensors = {{.sizes = {300}}, {.sizes = {7, 50}}, {.sizes = {1}}, {.sizes = {0}}};
  made.steps = 5;
  return made;
}

// Compares the result of n replays with that of n steps.
void expect_equal(const StepCase& c, Backend& backend) {
  RecordingBackend recording(backend);
  const KernelConfig config = default_kernel_config(emulation::kernel_of(c), backend.target());
  const auto expected = emulation::run_case(c, backend, config);
  const auto repeated = emulation::run_case(c, {recording, recording.graphs()}, config);
  for (const auto& difference : emulation::differences(expected, repeated))
    ADD_FAILURE() << emulation::kernel_of(c).name << ": " << to_string(difference);
}

class Capture : public ::testing::Test {
 protected:
  CpuBackend cpu{default_engine()};
};

TEST_F(Capture, ReplaysAreStepsOfEveryRule) {
  for (const std::string& rule : default_catalog().names(Manifest::Kind::rule))
    if (default_catalog()
            .rule(rule)
            .transforms.empty())  // this recorder does not support transforms
      expect_equal(step_case(rule), cpu);
}

TEST_F(Capture, ReplaysSkipGradientsThatAreNotFinite) {
  for (const char* rule : {"adamw", "lamb", "prodigy", "schedulefree_adamw"}) {
    StepCase c = step_case(rule);
    c.refused = {1, 3, 4};
    c.grad_scale = 8;
    c.clears = true;
    expect_equal(c, cpu);
  }
}

TEST_F(Capture, ReplaysClipAndRoundAtRandom) {
  StepCase c = step_case("adamw", {{"max_grad_norm", 0.1}});
  c.spec.state.dtype = c.spec.gradient = Dtype::bfloat16;
  c.spec.state.weights = "stochastic";
  expect_equal(c, cpu);
}

TEST_F(Capture, MustHaveAllDevicesOfAStep) {
  RecordingBackend one(cpu), other(cpu);
  one.record([&] {
    EXPECT_THROW(check_same_capture({&one, &other, &one}), Error);
    EXPECT_THROW(check_same_capture({&other, &one}), Error);
    EXPECT_NO_THROW(check_same_capture({&one, &one}));
  });
  EXPECT_NO_THROW(check_same_capture({&one, &other})) << "without a capture";
  EXPECT_NO_THROW(check_same_capture({}));
}

TEST_F(Capture, ReplaysOfTheGpuSourceAreStepsToo) {
  emulation::EmulatedBackend backend(default_engine(), 3, emulation::BlockOrder::kReverse,
                                     emulation::LaneOrder::kRandom);
  for (const char* rule : {"adamw", "prodigy"}) expect_equal(step_case(rule), backend);
}

// ---- one tensor whose steps the device counts

class CapturedStep : public Capture {
 protected:
  CapturedStep() {
    StepTensor tensor;
    tensor.p = values;
    tensor.slots = {{m, nullptr}, {v, nullptr}};
    tensor.shape = {{4}, {1}};
    tensor.g_strides = {1};
    step.emplace(recording, std::vector<Batch>{{adamw, {tensor}}});
    set = adamw.at_step(OptionValues("adamw"), 2);
    set.step_offset = &step_offset;
  }
  void run() { step->run({{.g = gradient}}, {set}); }
  void capture() {
    recording.record([this] { run(); });
  }

  RecordingBackend recording{cpu};
  Plan adamw = testing::plan("adamw");
  float values[4] = {1, 2, 3, 4}, gradient[4] = {1, 1, 1, 1}, m[4] = {}, v[4] = {};
  HyperParams set{};
  int64 step_offset = 1;
  std::optional<Step> step;
};

constexpr char kNotReady[] = "a CUDA graph capture cannot contain this call";

TEST_F(CapturedStep, ThrowsIfTheHostCounts) {
  run();
  EXPECT_NE(error_of([&] { capture(); }).find(kNotReady), std::string::npos);
  recording.replay();
  EXPECT_EQ(step_offset, 1);
  EXPECT_FALSE(step->is_captured());
}

TEST_F(CapturedStep, ThrowsIfTheActiveTensorsDifferFromTheStepBefore) {
  step->count_on_device();
  step->run({{.inactive = true}}, {set});
  EXPECT_NE(error_of([&] { capture(); }).find(kNotReady), std::string::npos);
  run();
  EXPECT_NO_THROW(capture());
}

TEST_F(CapturedStep, NeedsAStepOffsetForEveryTensor) {
  step->count_on_device();
  set.step_offset = nullptr;
  EXPECT_NE(error_of([&] { run(); }).find("step_offset is null in a step counted on the device"),
            std::string::npos);
}

TEST_F(CapturedStep, CountsWithEveryStepAndReplay) {
  step->count_on_device();
  run();
  EXPECT_EQ(step_offset, 0);
  capture();
  EXPECT_EQ(step_offset, 0) << "a capture does nothing";
  for (int i = 0; i < 3; ++i) recording.replay();
  EXPECT_EQ(step_offset, -3);
}

TEST_F(CapturedStep, CannotRunOutsideTheGraphAfterTheCapture) {
  step->count_on_device();
  run();
  capture();
  EXPECT_NE(error_of([&] { run(); }).find("belongs to a CUDA graph"), std::string::npos);
}

TEST_F(CapturedStep, ReadsTheGradientThatItWasCapturedWith) {
  step->count_on_device();
  run();
  const float elsewhere[4] = {};
  recording.record([&] { step->run({{.g = elsewhere}}, {set}); });
  const float before = m[0];
  recording.replay();
  EXPECT_FLOAT_EQ(m[0], 0.9f * before);
}

TEST_F(CapturedStep, ReadsTheLearningRateInEveryReplay) {
  const float rate = 0;
  double rates[] = {0};
  step->count_on_device();
  for (const auto& [lr, bytes] : {std::pair<const void*, int>{&rate, 4}, {rates, 8}}) {
    set.lr = lr;
    set.lr_bytes = bytes;
    const float before = values[0];
    run();
    EXPECT_EQ(values[0], before);
  }
  capture();
  rates[0] = 0.5;
  const float before = values[0];
  recording.replay();
  EXPECT_LT(values[0], before - 0.25f);
}

TEST_F(CapturedStep, NeedsOneMoreLaunch) {
  const auto launches_of = [&] {
    const std::uint64_t before = launch_count();
    run();
    return launch_count() - before;
  };
  const std::uint64_t host_counted = launches_of();
  step->count_on_device();
  EXPECT_EQ(launches_of(), host_counted + 1);
  step->count_on_device(false);
  EXPECT_EQ(launches_of(), host_counted);
}

}  // namespace
}  // namespace jitstep::jit
