// Sums and state by row, column and axis. The CPU's loops give the bits of the emulated teams, for every size and
// memory order.
#include <gtest/gtest.h>

#include "../../templates/kernel/loop/entry_ranges.cuh"
#include "jit/base/args.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

// Sizes around a leaf, and last dimensions around those that the kernel handles as spans. Many have several leaves.
// Small convolutions, whose entries interleave in memory, with more blocks than one pass handles, and of 1 x 1.
std::vector<TensorCase> tensors() {
  std::vector<TensorCase> cases;
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
           {300, 20},      {257, 16},       {513, 15},      {256, 256},    {20, 700},
           {3, 1100},      {1, 300},        {300, 1},       {1, 1},        {3, 300, 17},
           {2, 5, 257},    {40, 3, 3, 3},   {8, 4, 5, 16},  {4, 3, 32, 2}, {3, 130, 3, 3},
           {130, 5, 3, 3}, {3, 300, 3, 3},  {300, 5, 3, 3}, {300, 70, 3},  {600, 17},
           {6, 3, 7, 7},   {20, 300, 1, 1}, {700, 1, 3},    {600}})
    cases.push_back({.sizes = sizes});
  cases.push_back({.sizes = {300, 20}, .transposed = true, .grad_transposed = true});
  cases.push_back({.sizes = {2, 33, 257}, .transposed = true, .grad_transposed = true});
  // Entries that are adjacent in memory, but not in logical order. Members that are not consecutive in logical order: of
  // the last dimension of {13, 5, 4, 6}, the second leaf has fewer members than channels.
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{
           {20, 33, 3, 3}, {3, 300, 3, 2}, {40, 16, 17}, {13, 5, 4, 6}})
    cases.push_back({.sizes = sizes, .channels_last = true});
  cases.push_back({.sizes = {300, 20}, .misalignment = 3});
  return cases;
}

StepCase case_of(const jit::KernelSpec& spec) {
  return {.spec = spec, .options = {}, .tensors = tensors(), .steps = 2};
}

TEST(EntrySums, OfFactoredRulesHaveTheSameBits) {
  expect_same_bits(case_of(spec_of("adafactor", "fp32")), 1);
  expect_same_bits(case_of(spec_of("came", "int8")), 1);
}

TEST(EntrySums, OfCentralizedGradientsHaveTheSameBits) {
  StepCase centralized = case_of(spec_of("adamw", "int4", "stochastic", jit::Dtype::bfloat16));
  centralized.options["centralization"] = 1.0;
  expect_same_bits(centralized, 1);
}

TEST(EntrySums, OfValuesThatAreNotFiniteHaveTheSameBits) {
  StepCase special = case_of(spec_of("adafactor", "bf16"));
  special.special_values = true;
  expect_same_bits(special, 1);
}

TEST(EntrySums, OfCodecsWithAuxStatePerAxisHaveTheSameBits) {
  load_test_extensions();
  expect_same_bits(case_of(spec_of("adamw", "axis_maxima8")), 1);
}

TEST(EntrySums, OfScalesAlongEachDimensionHaveTheSameBits) {
  jit::KernelSpec spec = spec_of("adamw", "int4_rank1", "native", jit::Dtype::bfloat16);
  for (auto& slot : spec.state.slots) slot->options["dims"] = 4;
  expect_same_bits(case_of(spec), 1);
}

// ---- the entries of a range ---------------------------------------------------------------------

TensorRecord record(const std::vector<std::int64_t>& sizes, const std::vector<int>& in_memory) {
  TensorRecord t{};
  t.dims = static_cast<int>(sizes.size());
  t.n = 1;
  for (const int d : in_memory) {
    t.dim[d] = {sizes[static_cast<std::size_t>(d)], t.n, 0, 0};
    t.n *= sizes[static_cast<std::size_t>(d)];
  }
  return t;
}

// in_memory: the dimensions, fastest-varying first.
void expect_entries(const std::vector<std::int64_t>& sizes, const std::vector<int>& in_memory) {
  const TensorRecord t = record(sizes, in_memory);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(t.n));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  for (uint32 reduced = 0; reduced < 1u << t.dims; ++reduced)
    for (std::int64_t base = 0; base < t.n; base += kLeaf) {
      const int count = static_cast<int>(std::min<std::int64_t>(t.n - base, kLeaf));
      const int begin = count > 7 ? 7 : 0;
      std::int64_t entries[kLeaf] = {};
      const EntrySpan span = span_of(t, reduced);
      broadcast_entries(span, EntryCursor(span, base + begin), {base, count, begin, count},
                        numbers.data(), entries);
      for (int i = begin; i < count; ++i)
        ASSERT_EQ(entries[i], entry_of(t, reduced, base + i)) << reduced << " " << base + i;
    }
}

TEST(EntriesOfRanges, EqualThoseOfTheirElements) {
  expect_entries({40, 17}, {1, 0});
  expect_entries({40, 17}, {0, 1});
  expect_entries({5, 4, 3, 7}, {3, 2, 1, 0});
  expect_entries({5, 4, 3, 7}, {1, 3, 2, 0});  // channels last
  expect_entries({6, 1, 90}, {2, 1, 0});
  expect_entries({1, 1}, {1, 0});
  expect_entries({600}, {0});
}

}  // namespace
}  // namespace jitstep::support
