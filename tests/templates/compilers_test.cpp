// GCC and Clang compile kernels that give the same bits: every sixth combination. compilers_long_test.cpp has the others.
#include "templates/compilers_bits.h"

namespace jitstep::support {
namespace {

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

INSTANTIATE_TEST_SUITE_P(All, Compilers, testing::ValuesIn(combinations(true)), kCaseName);

}  // namespace
}  // namespace jitstep::support
