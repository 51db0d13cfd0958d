// Kernels compiled for older CPUs give the same bits as those for this one, though vector width and byte permutations
// differ.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "emulation/step_run.h"
#include "jit/fixtures.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"
#include "support/bits.h"
#include "support/compilers.h"

namespace jitstep::support {
namespace {

constexpr const char* kNeeds = "needs g++, and a CPU of the older level";

StepOutcome run_with(const std::string& compiler, const StepCase& c) {
  jit::Settings settings = jit::Settings::from_environment();
  settings.cxx = compiler;
  jit::Engine engine(settings);
  jit::CpuBackend cpu(engine);
  return run_case(c, cpu, jit::default_kernel_config(kernel_of(c), cpu.target()));
}

// GCC wrapped in a script that compiles for one level of x86-64, whatever options come before.
class Level {
 public:
  explicit Level(const std::string& level) : program_(folder_ / ("c++-" + level)) {
    std::ofstream(program_) << "#!/bin/sh\nexec " << gcc() << " \"$@\" -march=x86-64-" << level
                            << "\n";
    std::filesystem::permissions(program_, std::filesystem::perms::owner_all);
  }
  const std::string& compiler() const { return program_; }

 private:
  jit::testing::TemporaryFolder folder_;
  std::string program_;
};

void expect_the_same_bits(const std::string& level) {
  const Level old(level);
  for (const char* codec : {"int4", "int4_rank1", "int8", "fp8", "int8_softsign"}) {
    SCOPED_TRACE(codec);
    StepCase c{.spec = spec_of("adamw", codec), .options = {}, .tensors = {}, .steps = 3};
    for (const std::vector<std::int64_t>& sizes :
         std::vector<std::vector<std::int64_t>>{{40, 300}, {1000}, {3, 257}})
      c.tensors.push_back({.sizes = sizes});
    EXPECT_EQ(differences(run_with(gcc(), c), run_with(old.compiler(), c)),
              std::vector<Difference>());
  }
}

// Strips of 16-bit values, incomplete ones, and values that are rounded one by one.
void expect_the_same_rounding(const std::string& level, const char* codec, jit::Dtype dtype,
                              const std::vector<const char*>& all_weights) {
  const Level old(level);
  for (const char* weights : all_weights) {
    StepCase c{.spec = spec_of("adamw", codec, weights, dtype, dtype),
               .options = {},
               .tensors = {},
               .steps = 3};
    for (const std::int64_t size : {1000, 256, 33, 31}) c.tensors.push_back({.sizes = {size}});
    for (const bool special : {false, true}) {
      SCOPED_TRACE(std::string(weights) + (special ? ", special values" : ""));
      c.special_values = special;
      c.grad_scale = special ? 0 : 0x1p-23;  // gradients up to 2^23, or subnormal ones
      c.steps = special ? 1 : 3;             // a moment is subnormal after one such gradient
      EXPECT_EQ(differences(run_with(gcc(), c), run_with(old.compiler(), c)),
                std::vector<Difference>());
    }
  }
}

// The momentum of the first step is the negative gradient, and some gradients are 0.
void expect_the_same_zeros(const std::string& level, const char* codec) {
  const Level old(level);
  const StepCase c{.spec = spec_of("sgd", codec),
                   .options = {{"momentum", 0.9}, {"maximize", true}},
                   .tensors = {{.sizes = {1000}}},
                   .steps = 1};
  EXPECT_EQ(differences(run_with(gcc(), c), run_with(old.compiler(), c)),
            std::vector<Difference>());
}

#if defined(__x86_64__)
TEST(InstructionSets, WithoutBytePermutationsGiveTheSameBits) {
  if (gcc().empty() || !__builtin_cpu_supports("sse4.2")) GTEST_SKIP() << kNeeds;
  expect_the_same_bits("v2");
}
TEST(InstructionSets, WithVectorsOfEightFloatsGiveTheSameBits) {
  if (gcc().empty() || !__builtin_cpu_supports("avx2")) GTEST_SKIP() << kNeeds;
  expect_the_same_bits("v3");
}
TEST(InstructionSets, WithoutInstructionsForBFloat16GiveTheSameBits) {
  if (gcc().empty() || !__builtin_cpu_supports("avx2")) GTEST_SKIP() << kNeeds;
  expect_the_same_rounding("v3", "bf16", jit::Dtype::bfloat16, {"native", "split8"});
  expect_the_same_zeros("v3", "bf16");
}
TEST(InstructionSets, WithoutInstructionsForStochasticRoundingGiveTheSameBits) {
  if (gcc().empty() || !__builtin_cpu_supports("avx2")) GTEST_SKIP() << kNeeds;
  expect_the_same_rounding("v3", "bf16_sr", jit::Dtype::bfloat16, {"stochastic"});
  expect_the_same_zeros("v3", "bf16_sr");
}
TEST(InstructionSets, WithoutInstructionsForFloat16GiveTheSameBits) {
  if (gcc().empty() || !__builtin_cpu_supports("avx2")) GTEST_SKIP() << kNeeds;
  for (const char* level : {"v2", "v3"})
    expect_the_same_rounding(level, "fp16", jit::Dtype::float16, {"native", "split8"});
  expect_the_same_zeros("v3", "fp16");
}
#endif

}  // namespace
}  // namespace jitstep::support
