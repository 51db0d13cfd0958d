// GCC and Clang compile kernels that give the same bits.
#include <gtest/gtest.h>

#include "emulation/step_run.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"
#include "support/bit_cases.h"
#include "support/bits.h"
#include "support/compilers.h"

namespace jitstep::support {
namespace {

class Compilers : public testing::TestWithParam<BitCase> {};

StepOutcome run_with(const std::string& compiler, const StepCase& c) {
  jit::Settings settings = jit::Settings::from_environment();
  settings.cxx = compiler;
  jit::Engine engine(settings);
  jit::CpuBackend cpu(engine);
  return run_case(c, cpu, jit::default_kernel_config(kernel_of(c), cpu.target()));
}

TEST_P(Compilers, MakeKernelsWithTheSameBits) {
  for (const StepCase& c : GetParam().make()) {
    SCOPED_TRACE(to_string(kernel_of(c).spec));
    EXPECT_EQ(differences(run_with(gcc(), c), run_with(clang(), c)), std::vector<Difference>());
  }
}

// The other tests in this file need both compilers. They do not exist if one is missing.
TEST(CompilersOfTheTests, AreBothInstalled) {
  EXPECT_NE(gcc(), "") << "no g++: apt install g++";
  EXPECT_NE(clang(), "") << "no clang++-14 or clang++: apt install clang, as tools/setup.sh does";
}

// jitstep supports every clang from 14 on. The other tests use only one.
TEST(CompilersOfTheTests, MakeAKernelEach) {
  for (const char* name :
       {"clang++-14", "clang++-15", "clang++-16", "clang++-17", "clang++-18", "clang++-19"}) {
    if (installed({name}).empty()) continue;
    SCOPED_TRACE(name);
    StepCase c{.spec = spec_of("adamw", "int8"),
               .options = {},
               .tensors = {{.sizes = {3, 257}}},
               .steps = 2};
    EXPECT_EQ(differences(run_with(gcc(), c), run_with(name, c)), std::vector<Difference>());
  }
}

// Empty if one of the compilers is missing. Block sizes and layouts run under emulation instead, which compiles less.
std::vector<BitCase> combinations() {
  if (gcc().empty() || clang().empty()) return {};
  std::vector<BitCase> all = bit_cases();
  std::erase_if(all, [](const BitCase& c) { return !c.name.starts_with("Combination"); });
  return all;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Compilers);
INSTANTIATE_TEST_SUITE_P(All, Compilers, testing::ValuesIn(combinations()), kCaseName);

}  // namespace
}  // namespace jitstep::support
