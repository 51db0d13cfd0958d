// Evenly chosen combinations. combinations_long_test.cpp runs all of them.
#include "ptx_driver/combinations.h"

namespace jitstep::tests {
namespace {

// Every eighth combination, every eighth kernel of a case with many kernels, and every third extension.
std::vector<PtxCase> some_cases() {
  std::vector<PtxCase> some;
  std::size_t number = 0;
  for (const BitCase& bits : support::bit_cases()) {
    const bool combination = bits.name.starts_with("Combination_");
    if (!combination || number++ % 8 == 0) some.push_back({bits, combination ? 1u : 8u});
  }
  const auto extensions = support::extension_bit_cases();
  for (std::size_t k = 0; k < extensions.size(); k += 3) some.push_back({extensions[k], 2});
  return some;
}

INSTANTIATE_TEST_SUITE_P(Some, PtxBits, testing::ValuesIn(some_cases()), kPtxName);

// One kernel in two divisions on each device, for enough steps that step numbers matter.
TEST(PtxWays, AllGiveTheBitsOfTheCpu) {
  const StepCase c{
      .spec = support::spec_of("lamb", "int4"),
      .options = {{"max_grad_norm", 0.5}},
      .tensors = {{.sizes = {1300}}, {.sizes = {3, 129}, .misalignment = 1}, {.sizes = {}}},
      .steps = 20};
  int device = 0;
  for (const auto& way : support::gpu_ways(kernel_of(c)))
    expect_same_bits(c, way, device++ % static_cast<int>(std::size(driver::kDevices)));
}

// On an architecture with instructions for each of them, with values that are not finite.
TEST(PtxConversions, OfNarrowFormatsGiveTheBitsOfTheCpu) {
  for (const auto& [state, dtype] :
       {std::pair{"fp8", "float16"}, std::pair{"fp8_norm", "bfloat16"}}) {
    StepCase c{.spec = support::spec_of("adamw", state),
               .options = {},
               .tensors = {{.sizes = {2100}}},
               .special_values = true};
    c.spec.state.dtype = c.spec.gradient = jit::parse_dtype(dtype);
    expect_same_bits(c, support::gpu_ways(kernel_of(c)).front(), 0);
  }
}

void expect_same_ordinary_bits(const char* state, double scale, bool special) {
  StepCase c{.spec = support::spec_of("adamw", state),
             .options = {{"eps", 1e-19}},  // so that roots of subnormal numbers matter
             .tensors = {{.sizes = {1300}}},
             .steps = 4,
             .special_values = special,
             .grad_scale = scale};
  if (special) c.spec.state.dtype = c.spec.gradient = jit::parse_dtype("bfloat16");
  expect_same_bits(c, support::gpu_ways(kernel_of(c)).front(), 0);
}

// Whole tiles with operands inside and outside the ranges of arithmetic without branches (templates/lang/ordinary.cuh),
// and blocks that are encoded quickly or not.
TEST(PtxOrdinary, AdamwGivesTheBitsOfTheCpuForEverySizeOfNumbers) {
  for (const auto& [state, scale, special] : {std::tuple{"int8", 0.0, false},
                                              {"int8", 1e13, true},
                                              {"fp32", 1e13, false},
                                              {"int4", 1e-10, false},
                                              {"int8", 1e-20, false}})
    expect_same_ordinary_bits(state, scale, special);
}

}  // namespace
}  // namespace jitstep::tests
