// The CPU's loops over elements run in vectors: told by what the compiler says that it has made of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "jitstep/jit/engine.h"
#include "jitstep/jit/unit.h"
#include "support/bits.h"
#include "support/compilers.h"

namespace jitstep::support {
namespace {

// A loop of a template: its `for` is in the line that has these words, or the next one after it.
struct Loop {
  const char* file;
  const char* words;
};

// FILE:LINE of every loop that g++ has vectorised, for a kernel as hosts compile it.
std::set<std::string> vectorised_lines(const jit::KernelSpec& spec, const std::string& machine) {
  const jit::Plan plan = jit::resolve(spec);
  const jit::Target cpu = jit::Target::cpu();
  const jit::Unit unit = jit::unit(plan, jit::default_kernel_config(plan, cpu), cpu);
  const std::string path = jit::Settings::from_environment().path;
  const jit::Finished run = jit::run_program(
      {jit::find_program(gcc(), path), "-x", "c++", "-std=c++20", "-fPIC", "-O3",
       "-march=" + machine, "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
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
    found = found || line.find(loop.words) != line.npos;
    if (found && line.find("for (") != line.npos) return loop.file + (":" + std::to_string(number));
  }
  ADD_FAILURE() << loop.file << " has no loop at: " << loop.words;
  return "";
}

// Two of the machines that hosts may be: with AVX2, and with AVX-512 and byte permutations.
class Vectorised : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gcc().empty()) GTEST_SKIP() << "the report that is read is g++'s, which is not installed";
#if !defined(__x86_64__)
    GTEST_SKIP() << "the machines that are named are x86's";
#endif
  }

  void expect_vectorised(const jit::KernelSpec& spec, const std::vector<Loop>& loops) {
    const std::set<std::string> lines = vectorised_lines(spec, GetParam());
    for (const Loop& loop : loops)
      EXPECT_TRUE(lines.contains(line_of(loop))) << to_string(spec) << ": " << loop.words;
  }
};

constexpr const char* kRun = "kernel/encoded_range.cuh";
constexpr Loop kElements = {"kernel/loop.cuh",
                            "const int64 first = scope.tensor.offset + elements.base;"};
constexpr Loop kBlockOfOldValues = {kRun, "i < start + kBlock"};
constexpr Loop kKeys = {kRun, "most = max(most, Codec::key("};
constexpr Loop kCandidates = {kRun, "C::candidate("};
constexpr Loop kCodes = {"kernel/loop.cuh", "code[i] = encoded.code("};
constexpr Loop kLeavesSideBySide = {"kernel/entry_sums.cuh",
                                    "for (int i = 0; i < width; ++i) node_[n][i] = Op::combine("};
constexpr Loop kNibbles = {kRun, "auto* to = static_cast<uint8*>(codes)"};

TEST_P(Vectorised, IsTheLoopOverElementsOfEveryCodec) {
  for (const char* codec : {"fp32", "bf16", "int8", "int8_softsign", "int4"})
    for (const char* rule : {"adamw", "lamb"}) expect_vectorised(spec_of(rule, codec), {kElements});
}

TEST_P(Vectorised, IsTheLoopOverElementsOfEveryWeightFormat) {
  for (const std::string weights : {"native", "master", "split16", "split8", "kahan"}) {
    if (weights == "split8" && GetParam() == std::string("x86-64-v3")) continue;  // not by g++ 12
    const auto spec = spec_of("adamw", "bf16", weights, jit::Dtype::bfloat16, jit::Dtype::bfloat16);
    expect_vectorised(spec, {kElements});
  }
}

TEST_P(Vectorised, IsWhatHasResultsByRowAndColumn) {
  const Loop value_of_a_row = {"kernel/entry_ranges.cuh", "const T value = from[entry]"};
  expect_vectorised(spec_of("adafactor", "fp32"), {kElements, kLeavesSideBySide, value_of_a_row});
}

TEST_P(Vectorised, AreTheLoopsOverBlocks) {
  expect_vectorised(spec_of("adamw", "int8"), {kKeys, kCandidates, kCodes});
  expect_vectorised(spec_of("adamw", "int8_softsign"), {kBlockOfOldValues, kKeys, kCodes});
  expect_vectorised(spec_of("adamw", "int4"),
                    {kBlockOfOldValues, kKeys, kCandidates, kCodes, kNibbles});
}

TEST_P(Vectorised, AreTheRandomBits) {
  expect_vectorised(
      spec_of("adamw", "fp32", "stochastic", jit::Dtype::bfloat16, jit::Dtype::bfloat16),
      {kElements, {kRun, "RandomRange(const RandomKey& key, int64 first)"}});
}

INSTANTIATE_TEST_SUITE_P(Machines, Vectorised, testing::Values("x86-64-v3", "icelake-server"),
                         [](const auto& machine) {
                           std::string name = machine.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace jitstep::support
