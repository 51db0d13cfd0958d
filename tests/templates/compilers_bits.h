// GCC and Clang compile kernels that give the same bits. Programs instantiate this suite for some cases.
#pragma once

#include <gtest/gtest.h>

#include "emulation/step_run.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"
#include "support/bit_cases.h"
#include "support/bits.h"
#include "support/compilers.h"

namespace jitstep::support {

class Compilers : public testing::TestWithParam<BitCase> {};

inline StepOutcome run_with(const std::string& compiler, const StepCase& c) {
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

/// Every sixth combination, or all others. Empty if one of the compilers is missing. Block sizes and layouts run under
/// emulation instead, which compiles less.
inline std::vector<BitCase> combinations(bool every_sixth) {
  if (gcc().empty() || clang().empty()) return {};
  std::vector<BitCase> all = bit_cases();
  int index = 0;
  std::erase_if(all, [&](const BitCase& c) {
    return !c.name.starts_with("Combination") || (index++ % 6 == 0) != every_sixth;
  });
  return all;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Compilers);

}  // namespace jitstep::support
