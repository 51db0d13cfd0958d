// The CPU's loops over elements are vectorized, according to the compiler's report.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "jit/codegen/unit.h"
#include "jitstep/jit/engine.h"
#include "support/bits.h"
#include "support/compilers.h"

namespace jitstep::support {
namespace {

// A loop of a template: its `for` is in the line with `text`, or in the next line with a `for`.
struct Loop {
  const char* file;
  const char* text;
};

// FILE:LINE of every loop that g++ has vectorized, for a kernel compiled with the library's options.
std::set<std::string> vectorized_lines(const jit::KernelSpec& spec, const std::string& cpu_name) {
  const jit::Plan plan = jit::resolve(spec);
  const jit::Target cpu = jit::Target::cpu();
  const jit::Unit unit = jit::unit(plan, jit::default_kernel_config(plan, cpu), cpu);
  const std::string path = jit::Settings::from_environment().path;
  const jit::Finished run = jit::run_program(
      {jit::find_program(gcc(), path), "-x", "c++", "-std=c++20", "-fPIC", "-O3",
       "-march=" + cpu_name, "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
       "-fopt-info-vec-optimized", "-S", "-o", "/dev/null", "-"},
      jit::default_engine().preprocessed_text(unit.text, unit.name), jit::own_variables());
  EXPECT_EQ(run.status, 0) << run.output;
  std::set<std::string> lines;
  std::istringstream report(run.output);
  for (std::string line; std::getline(report, line);)
    if (line.find("loop vectorized") != line.npos)
      lines.insert(line.substr(0, line.find(':', line.find(':') + 1)));
  return lines;
}

std::string line_of(const Loop& loop) {
  std::istringstream file(jit::default_engine().templates().find(loop.file).value());
  bool found = false;
  int number = 1;
  for (std::string line; std::getline(file, line); ++number) {
    found = found || line.find(loop.text) != line.npos;
    if (found && line.find("for (") != line.npos) return loop.file + (":" + std::to_string(number));
  }
  ADD_FAILURE() << loop.file << " has no loop at: " << loop.text;
  return "";
}

// Two kinds of CPU: with AVX2, and with AVX-512 and byte permutations.
class LoopsOnTheCpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gcc().empty()) GTEST_SKIP() << "needs the report of g++, which is not installed";
#if !defined(__x86_64__)
    GTEST_SKIP() << "the tested CPUs are x86";
#endif
  }

  void expect_vectorized(const jit::KernelSpec& spec, const std::vector<Loop>& loops,
                         const std::string& cpu_name) {
    const std::set<std::string> lines = vectorized_lines(spec, cpu_name);
    for (const Loop& loop : loops)
      EXPECT_TRUE(lines.contains(line_of(loop))) << to_string(spec) << ": " << loop.text;
  }
};
class Vectorized : public LoopsOnTheCpu, public testing::WithParamInterface<const char*> {
 protected:
  void expect_vectorized(const jit::KernelSpec& spec, const std::vector<Loop>& loops) {
    LoopsOnTheCpu::expect_vectorized(spec, loops, GetParam());
  }
};

constexpr const char* kRun = "kernel/loop/encoded_range.cuh";
constexpr Loop kElements = {"kernel/loop/load.cuh", "// vectorized: the loop over elements"};
constexpr Loop kStrip = {"kernel/loop/apply.cuh", "// vectorized: the loop over a strip"};
constexpr Loop kBlockOfOldValues = {kRun, "i < start + kBlock"};
constexpr Loop kKeys = {kRun, "most = max(most, Codec::key("};
constexpr Loop kCandidates = {kRun, "C::candidate("};
constexpr Loop kCodes = {"kernel/loop/apply.cuh", "code[i] = encoded.code("};
constexpr Loop kLeavesSideBySide = {"kernel/loop/entry_sums.cuh",
                                    "for (int i = 0; i < width; ++i) node_[n][i] = op.combine("};
constexpr Loop kNibbles = {kRun, "auto* to = static_cast<uint8*>(codes)"};

TEST_P(Vectorized, TheLoopOverElementsOfEveryCodec) {
  for (const char* codec : {"fp32", "bf16"})
    expect_vectorized(spec_of("adamw", codec), {kElements});
  for (const char* codec : {"fp32", "bf16", "int8", "int8_softsign", "int4"})
    expect_vectorized(spec_of("lamb", codec), {kElements});
}

TEST_P(Vectorized, TheLoopOverElementsOfEveryWeightFormat) {
  for (const std::string weights : {"native", "master", "split16", "split8", "kahan"}) {
    const auto spec = spec_of("adamw", "bf16", weights, jit::Dtype::bfloat16, jit::Dtype::bfloat16);
    expect_vectorized(spec, {kElements});
  }
}

TEST_P(Vectorized, LoopsWithResultsByRowAndColumn) {
  const Loop value_of_a_row = {"kernel/loop/entry_ranges.cuh", "KHD void spread(T value)"};
  expect_vectorized(spec_of("adafactor", "fp32"), {kElements, kLeavesSideBySide, value_of_a_row});
}

TEST_P(Vectorized, TheLoopsOverElementsAndBlocks) {
  expect_vectorized(spec_of("adamw", "int8"), {kElements, kKeys, kCandidates, kCodes});
  expect_vectorized(spec_of("adamw", "int8_softsign"),
                    {kElements, kBlockOfOldValues, kKeys, kCodes});
  expect_vectorized(spec_of("adamw", "int4"),
                    {kElements, kBlockOfOldValues, kKeys, kCandidates, kCodes, kNibbles});
}

TEST_P(Vectorized, TheLoopOverElementsWithRandomBits) {
  expect_vectorized(
      spec_of("adamw", "fp32", "stochastic", jit::Dtype::bfloat16, jit::Dtype::bfloat16),
      {kElements});
}

// A CPU with AVX-512 instructions for bfloat16.
TEST_F(LoopsOnTheCpu, VectorizeStripsOfEveryWeightFormat) {
  for (const char* weights : {"native", "split8"})
    expect_vectorized(spec_of("adamw", "bf16", weights, jit::Dtype::bfloat16, jit::Dtype::bfloat16),
                      {kStrip, kElements}, "cooperlake");
}

INSTANTIATE_TEST_SUITE_P(Cpus, Vectorized, testing::Values("x86-64-v3", "icelake-server"),
                         [](const auto& cpu_name) {
                           std::string name = cpu_name.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace jitstep::support
