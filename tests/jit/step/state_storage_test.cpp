#include "jitstep/jit/state_storage.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "jit/fixtures.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using testing::settings_with_cache;
using testing::TemporaryFolder;

TEST(StateStorage, ASlotHasItsCodesAndOneMetaForEachStartedBlock) {
  const auto bytes = [](const char* codec, Dtype dtype, std::int64_t n) {
    OptionValues options("sgd");
    options.set("momentum", 0.5);
    KernelSpec spec = resolve(options, {codec}).spec;
    spec.state.dtype = spec.gradient = dtype;
    const auto slot = state_layout(resolve(spec), {{n}, {1}}, {}).slots[0];
    return std::pair(slot.codes, slot.meta);
  };
  EXPECT_EQ(bytes("fp32", Dtype::float32, 7), std::pair(std::int64_t{28}, std::int64_t{0}));
  EXPECT_EQ(bytes("fp32", Dtype::float64, 7), std::pair(std::int64_t{56}, std::int64_t{0}));
  EXPECT_EQ(bytes("bf16", Dtype::float32, 7), std::pair(std::int64_t{14}, std::int64_t{0}));
  EXPECT_EQ(bytes("int4", Dtype::float32, 7).first, 4);
  EXPECT_EQ(bytes("int8", Dtype::float32, 0), std::pair(std::int64_t{0}, std::int64_t{0}));
  const std::int64_t one = bytes("int8", Dtype::float32, 256).second;
  EXPECT_GT(one, 0);
  EXPECT_EQ(bytes("int8", Dtype::float32, 257).second, 2 * one);
}

TEST(StateLayout, AMatrixHasOneBufferAndTheSizesOfItsDimensions) {
  OptionValues options("soap");
  options.set("max_precondition_dim", 8.0);
  const Plan plan = resolve(options);
  const auto entries = [&](std::vector<std::int64_t> sizes) {
    std::vector<std::int64_t> found;
    const Shape shape{sizes, std::vector<std::int64_t>(sizes.size(), 1)};
    for (const auto& field : state_layout(plan, shape, initial_aux_state(plan, options)).aux_state)
      found.push_back(field.entries);
    return found;
  };
  using Entries = std::vector<std::int64_t>;
  EXPECT_EQ(entries({3, 8}), (Entries{9, 9, 64, 64, 0, 0, 0, 0}));
  EXPECT_EQ(entries({3, 9}), (Entries{9, 9, 0, 0, 0, 0, 0, 0})) << "9 is above the limit";
  EXPECT_EQ(entries({2, 3, 4, 5}), (Entries{4, 4, 9, 9, 16, 16, 25, 25}));
  const StateLayout layout = state_layout(plan, {{3, 8}, {8, 1}}, initial_aux_state(plan, options));
  EXPECT_EQ(layout.bytes(), 4 * (2 * 24 + 2 * 9 + 2 * 64));
  EXPECT_EQ(layout.aux_state[0].columns, 3);
}

TEST(StateLayout, AMatrixStartsWithItsDiagonal) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  CpuBackend cpu(engine);
  OptionValues options("shampoo");
  options.set("matrix_eps", 0.5);
  const Plan plan = resolve(options);
  const StateStorage storage(cpu, plan, options, {2, 3});
  std::vector<float> p(6);
  const StepTensor tensor = storage.tensor(p.data());
  EXPECT_EQ(tensor.aux_state[0][0], tensor.aux_state[0][1]);
  const auto* const left = static_cast<const float*>(tensor.aux_state[0][0]);
  EXPECT_EQ(std::vector<float>(left, left + 4), (std::vector<float>{0.5f, 0, 0, 0.5f}));
}

TEST(StateStorage, PlainArraysFollowTheRule) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  CpuBackend cpu(engine);
  OptionValues options("sgd");
  options.set("lr", 0.5);
  const Plan plan = resolve(options);
  std::vector<float> p(1000), q(3, 2.0f), g(p.size(), 1.0f);
  std::iota(p.begin(), p.end(), 0.0f);
  const StateStorage of_p(cpu, plan, options, {10, 100}), of_q(cpu, plan, options, {3});
  Step both(cpu, {{plan, {of_p.tensor(p.data(), 0), of_q.tensor(q.data(), 1)}}});
  for (int step = 1; step <= 2; ++step)
    both.run({{.g = g.data()}, {.g = g.data()}}, {plan.at_step(options, step)});
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(p[i], static_cast<float>(i) - 1) << i;
  EXPECT_EQ(q, std::vector<float>(3, 1.0f));
  EXPECT_EQ(of_p.bytes(), 0);  // without momentum there is no slot
}

TEST(StateStorage, StateSurvivesBetweenStepsInAnyCodec) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  CpuBackend cpu(engine);
  OptionValues options("sgd");
  options.set("lr", 1.0);
  options.set("momentum", 0.5);
  for (const char* codec : {"fp32", "bf16", "int8", "int4"}) {
    const Plan plan = resolve(options, {codec});
    std::vector<float> p(300), g(p.size(), 1.0f);
    const StateStorage state(cpu, plan, options, {300});
    EXPECT_GE(state.bytes(), 150) << codec;
    Step step(cpu, {{plan, {state.tensor(p.data())}}});
    step.run({{.g = g.data()}}, {plan.at_step(options, 1)});
    step.run({{.g = g.data()}}, {plan.at_step(options, 2)});
    // Momentum is 1, then 1.5. Every codec stores the largest value of a block exactly.
    EXPECT_EQ(p, std::vector<float>(300, -2.5f)) << codec;
  }
}

TEST(StateStorage, SizesThatNoMemoryHoldsThrow) {
  testing::WarningCollector no_cache_folder;
  Engine engine(Settings{});
  CpuBackend cpu(engine);
  OptionValues options("sgd");
  options.set("momentum", 0.5);
  const Plan plan = resolve(options);
  const auto refused = [&](const std::vector<std::int64_t>& sizes) {
    return error_of([&] { StateStorage(cpu, plan, options, sizes); });
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(refused({kHuge}),
            "invalid tensor sizes [4611686018427387904]: a tensor can have at most 2^48 elements");
  // These products overflow to 0 and to 16.
  EXPECT_NE(refused({1 << 20, 1 << 24, 1 << 20}).find("2^48"), std::string::npos);
  EXPECT_NE(refused({(kHuge >> 2) + 1, 16}).find("2^48"), std::string::npos);
  EXPECT_NE(refused({0, kHuge}).find("2^48"), std::string::npos);
  EXPECT_EQ(refused({3, -1}), "invalid tensor sizes [3, -1]: sizes must be at least 0");
  EXPECT_NO_THROW(StateStorage(cpu, plan, options, {0, 1 << 20}));
  EXPECT_THROW(state_layout(plan, {{kHuge, 4}, {4, 1}}, {}), Error);
}

TEST(StateStorage, OptionsOutOfRangeThrowBeforeAnythingIsCompiled) {
  OptionValues options("sgd");
  options.set("lr", -1.0);
  EXPECT_NE(error_of([&] { resolve(options); }).find("lr"), std::string::npos);
  options.set("lr", 1.0);
  options.set("momentum", 0.5);
  EXPECT_NE(error_of([&] { resolve(options, {"int7"}); }).find("int7"), std::string::npos);
}

TEST(StateStorage, TheNumbersOfAStepAreTheOptionsInTheKernelsOrder) {
  OptionValues options("adamw");
  options.set("lr", 0.25);
  const HyperParams set = resolve(options).at_step(options, 7, 11);
  EXPECT_EQ(set.t, 7);
  EXPECT_EQ(set.seed, 11u);
  const auto hyper = options.hyper();
  EXPECT_EQ(std::memcmp(set.hyper, hyper.data(), sizeof set.hyper), 0);
}

}  // namespace
}  // namespace jitstep::jit
