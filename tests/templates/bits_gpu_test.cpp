// A GPU and the CPU give the same bits for every division of the work. Needs no torch, only memory of the driver.
#include <gtest/gtest.h>

#include "jitstep/jit/engine.h"
#include "support/bit_cases.h"
#include "support/bits.h"
#include "support/gpu_backend.h"

namespace jitstep::support {
namespace {

using jit::Dtype;

class GpuBits : public testing::TestWithParam<BitCase> {};

TEST_P(GpuBits, EqualThoseOfTheCpu) {
  for (const StepCase& c : GetParam().make()) {
    SCOPED_TRACE(to_string(kernel_of(c).spec));
    expect_same_bits_on_gpu(c);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GpuBits, testing::ValuesIn(bit_cases()), kCaseName);
INSTANTIATE_TEST_SUITE_P(Extensions, GpuBits, testing::ValuesIn(extension_bit_cases()), kCaseName);
INSTANTIATE_TEST_SUITE_P(LargeExtensions, GpuBits, testing::ValuesIn(large_bit_cases()), kCaseName);

// More items than blocks, several partial sums per block, and sums over thousands of leaves.
TEST(GpuBitsOfManyItems, EqualThoseOfTheCpu) {
  for (const char* rule : {"adamw", "lamb"})
    for (const char* codec : {"fp32", "bf16", "int8", "int4"}) {
      SCOPED_TRACE(std::string(rule) + " " + codec);
      expect_same_bits_on_gpu({.spec = spec_of(rule, codec),
                               .options = {{"max_grad_norm", 0.5}},
                               .tensors = {{.sizes = {(1 << 20) + 3}}, {.sizes = {511, 2049}}},
                               .steps = 2});
    }
}

TEST(GpuBitsOfManyTensors, EqualThoseOfTheCpu) {
  std::vector<TensorCase> tensors;
  for (int i = 0; i < 700; ++i)
    tensors.push_back({.sizes = {1 + i * 37 % 1500}, .misalignment = i % 5 == 0 ? 1 : 0});
  for (const char* codec : {"fp32", "int8"})
    expect_same_bits_on_gpu({.spec = spec_of("lamb", codec),
                             .options = {{"max_grad_norm", 0.5}},
                             .tensors = tensors,
                             .steps = 2});
}

TEST(GpuBitsOfMixedDtypes, EqualThoseOfTheCpu) {
  for (Dtype parameter : {Dtype::float64, Dtype::float32, Dtype::bfloat16, Dtype::float16})
    for (Dtype gradient : {Dtype::float32, Dtype::bfloat16}) {
      if (parameter == Dtype::float64 && gradient != Dtype::float64) gradient = Dtype::float64;
      SCOPED_TRACE(to_string(spec_of("adamw", "int8", "native", parameter, gradient)));
      const char* codec = parameter == Dtype::float64 ? "fp32" : "int8";
      expect_same_bits_on_gpu({.spec = spec_of("adamw", codec, "native", parameter, gradient),
                               .options = {{"max_grad_norm", 0.5}},
                               .tensors = odd_tensors()});
    }
}

// The small sample that compute-sanitizer runs (memory, races, uninitialized values): one case of each kind.
TEST(GpuSample, HasTheBitsOfTheCpu) {
  load_test_extensions();
  const std::vector<TensorCase> tensors = {
      {.sizes = {4097}}, {.sizes = {3, 129}, .misalignment = 1}, {.sizes = {}}};
  const std::vector<StepCase> cases = {
      {.spec = spec_of("adamw", "int8"), .options = {{"max_grad_norm", 0.5}}, .tensors = tensors},
      {.spec = spec_of("lamb", "int4"), .options = {{"centralization", 0.5}}, .tensors = tensors},
      {.spec = spec_of("adamw", "fp32", "stochastic", Dtype::bfloat16, Dtype::bfloat16),
       .options = {},
       .tensors = tensors},
      {.spec = spec_of("chained_entries", ""), .options = {}, .tensors = {{.sizes = {5, 300}}}},
  };
  jit::Engine& engine = jit::default_engine();
  jit::CpuBackend cpu(engine, [](std::int64_t n, std::int64_t, const auto& body) { body(0, n); });
  for (const StepCase& c : cases) {
    SCOPED_TRACE(to_string(kernel_of(c).spec));
    const auto expected =
        run_case(c, cpu, jit::default_kernel_config(kernel_of(c), jit::Target::cpu()));
    GpuBackend gpu(engine, 7, GpuBackend::Fresh::kUnwritten);
    const KernelConfig config = jit::default_kernel_config(kernel_of(c), gpu.target());
    EXPECT_TRUE(differences(expected, run_case(c, gpu.device(), config)).empty());
  }
}

}  // namespace
}  // namespace jitstep::support
