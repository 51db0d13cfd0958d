// Steps that run all passes for a few tensors before the next ones give the bits of steps whose passes visit all tensors.
#include <gtest/gtest.h>

#include <thread>

#include "support/bits.h"

namespace jitstep::support {
namespace {

// A loop in so many threads, whatever the grain.
jit::ParallelFor threads(int count) {
  return [count](std::int64_t items, std::int64_t, const auto& body) {
    std::vector<std::jthread> all;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t begin = items * i / count, end = items * (i + 1) / count;
      if (begin < end) all.emplace_back([&body, begin, end] { body(begin, end); });
    }
  };
}

StepCase case_of(const std::string& rule) {
  return {.spec = spec_of(rule, "fp32"),
          .options = {},
          .tensors = {{.sizes = {13000}},
                      {.sizes = {37, 29}},
                      {.sizes = {0}},
                      {.sizes = {3}},
                      {.sizes = {130, 70}, .first_step = 2},
                      {.sizes = {70, 130}, .transposed = true}}};
}

class CacheBlocks : public testing::TestWithParam<const char*> {};

TEST_P(CacheBlocks, GiveTheBitsOfPassesOverAllTensors) {
  const StepCase c = case_of(GetParam());
  KernelConfig config = jit::default_kernel_config(kernel_of(c), jit::Target::cpu());
  config.min_items = 1;
  CpuWithCache all(0, {});
  const StepOutcome expected = run_case(c, all, config);
  for (const auto& [count, elements] : {std::pair{1, 1}, {2, 1100}, {3, 1 << 20}, {8, 1}}) {
    CpuWithCache blocks(elements, threads(count));
    EXPECT_EQ(differences(expected, run_case(c, blocks, config)), std::vector<Difference>())
        << count << " threads, blocks of " << elements;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, CacheBlocks, testing::Values("lamb", "lars", "lamb16", "adafactor"),
                         [](const auto& rule) { return std::string(rule.param); });

}  // namespace
}  // namespace jitstep::support
