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

constexpr const char* kLoops = "schedules/loop.cuh";

// The numbers of the lines that g++ has vectorised in loop.cuh, for a kernel as hosts compile it.
std::set<int> vectorised_lines(const jit::KernelSpec& spec, const std::string& machine) {
  const jit::Plan plan = jit::resolve(spec);
  const jit::Target cpu = jit::Target::cpu();
  const jit::Unit unit = jit::unit(plan, jit::default_variant(plan, cpu), cpu);
  const std::string path = jit::Settings::from_environment().path;
  const jit::Finished run = jit::run_program(
      {jit::find_program(gcc(), path), "-x", "c++", "-std=c++20", "-fPIC", "-O3",
       "-march=" + machine, "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
       "-fopt-info-vec-optimized", "-S", "-o", "/dev/null", "-"},
      jit::default_engine().flat_text(unit.text, unit.name), jit::own_variables());
  EXPECT_EQ(run.status, 0) << run.output;
  std::set<int> lines;
  std::istringstream report(run.output);
  for (std::string line; std::getline(report, line);)
    if (line.starts_with(kLoops) && line.find("loop vectorized") != line.npos)
      lines.insert(std::stoi(line.substr(std::string(kLoops).size() + 1)));
  return lines;
}

// The line of the `for` that holds `words`, or follows on the line that does.
int line_of(const std::string& words) {
  std::istringstream file(jit::default_engine().templates().find(kLoops).value());
  bool found = false;
  int number = 1;
  for (std::string line; std::getline(file, line); ++number) {
    found = found || line.find(words) != line.npos;
    if (found && line.find("for (") != line.npos) return number;
  }
  ADD_FAILURE() << kLoops << " has no loop at: " << words;
  return 0;
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

  void expect_vectorised(const jit::KernelSpec& spec, const std::vector<std::string>& loops) {
    const std::set<int> lines = vectorised_lines(spec, GetParam());
    for (const std::string& words : loops)
      EXPECT_TRUE(lines.contains(line_of(words))) << to_string(spec) << ": " << words;
  }
};

constexpr const char* kElements = "const int64 first = scope.tensor.offset + base;";
constexpr const char* kKeys = "most = max(most, Codec::key(";

TEST_P(Vectorised, IsTheLoopOverElementsOfEveryCodec) {
  for (const char* codec : {"fp32", "bf16", "int8", "int8_softsign", "int4"})
    for (const char* rule : {"adamw", "lamb"}) expect_vectorised(spec_of(rule, codec), {kElements});
}

TEST_P(Vectorised, AreTheEncoders) {
  expect_vectorised(spec_of("adamw", "int8"), {kKeys, "C::candidate(", "to[i] = code(i);"});
  expect_vectorised(spec_of("adamw", "int8_softsign"), {kKeys, "to[i] = code(i);"});
  expect_vectorised(spec_of("adamw", "int4"), {kKeys, "C::candidate(", "one[i] = code(i);",
                                               "auto* to = static_cast<uint8*>(codes)"});
}

TEST_P(Vectorised, AreTheRandomBits) {
  expect_vectorised(
      spec_of("adamw", "fp32", "stochastic", jit::Dtype::bfloat16, jit::Dtype::bfloat16),
      {kElements, "RandomRun(const RandomKey& key, int64 first)"});
}

INSTANTIATE_TEST_SUITE_P(Machines, Vectorised, testing::Values("x86-64-v3", "icelake-server"),
                         [](const auto& machine) {
                           std::string name = machine.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace jitstep::support
