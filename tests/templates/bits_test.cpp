// The GPU schedule under emulation and the CPU schedule leave the same bits, however they are cut.
#include <gtest/gtest.h>

#include "support/bits.h"
#include "support/combinations.h"
#include "support/emulated_machine.h"

namespace jitstep::support {
namespace {

using jit::Dtype;

// One test a combination: rules with fp32 state, codecs with adamw and lamb, weights and dtypes.
class Combinations : public testing::TestWithParam<jit::KernelSpec> {};

TEST_P(Combinations, KeepTheBits) {
  jit::KernelSpec spec = GetParam();
  jit::NamedValues options;
  if (spec.rule == "sgd") options = {{"momentum", 0.9}, {"nesterov", true}};
  for (auto& slot : spec.slots)
    if (!slot) slot = jit::CodecChoice{"fp32"};
  expect_same_bits({.spec = spec, .options = options, .tensors = odd_tensors()});
}

INSTANTIATE_TEST_SUITE_P(All, Combinations, testing::ValuesIn(ci_combinations()),
                         [](const auto& spec) {
                           std::string name = jit::unit_name(spec.param);
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name + "_" + std::to_string(spec.index);
                         });

TEST(Bits, SumsOverEveryTensorKeepThem) {
  expect_same_bits({.spec = spec_of("adamw", "int8", "native", Dtype::float32, Dtype::bfloat16),
                    .options = {{"max_grad_norm", 0.5},
                                {"centralization", 0.3},
                                {"maximize", true},
                                {"amsgrad", true}},
                    .tensors = odd_tensors()});
}

TEST(Bits, EveryBlockSizeKeepsThem) {
  for (int block : {32, 64, 512, 1024})
    for (const char* codec : {"int8", "int4"}) {
      SCOPED_TRACE(std::string(codec) + " " + std::to_string(block));
      jit::KernelSpec spec = spec_of("adamw", codec);
      for (auto& slot : spec.slots) slot->options["block"] = block;
      expect_same_bits({.spec = spec, .options = {}, .tensors = odd_tensors()});
    }
}

TEST(Bits, StridedAndGappedTensorsKeepThem) {
  const std::vector<TensorCase> tensors = {
      {.sizes = {37, 29}, .transposed = true},
      {.sizes = {37, 29}, .grad_transposed = true},
      {.sizes = {2, 13, 57}, .transposed = true, .grad_transposed = true, .gaps = true},
      {.sizes = {300}, .misalignment = 1, .gaps = true},
  };
  for (const char* codec : {"fp32", "int4"})
    expect_same_bits(
        {.spec = spec_of("lamb", codec), .options = {{"centralization", 1.0}}, .tensors = tensors});
}

TEST(Bits, ValuesThatAreNotFiniteKeepThem) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4"})
    expect_same_bits({.spec = spec_of("adamw", codec),
                      .options = {},
                      .tensors = odd_tensors(),
                      .special_values = true});
}

class Extensions : public testing::Test {
 protected:
  static void SetUpTestSuite() { load_test_extensions(); }
};

// Every domain but `all`, several leaves long and ragged, of one to four dimensions.
std::vector<TensorCase> many_domains() {
  return {{.sizes = {}},
          {.sizes = {1}},
          {.sizes = {517}},
          {.sizes = {3, 700}},
          {.sizes = {700, 3}},
          {.sizes = {0, 5}},
          {.sizes = {4, 19, 23}},
          {.sizes = {2, 3, 17, 5}},
          {.sizes = {31, 40}, .transposed = true},
          {.sizes = {9, 33}, .first_step = 2}};
}

TEST_F(Extensions, RowsColumnsAndEntriesOfMatricesKeepTheBits) {
  expect_same_bits(
      {.spec = spec_of("factored_moment", ""), .options = {}, .tensors = many_domains()});
}

TEST_F(Extensions, ChainsOfEntriesAndOfSumsOverEverythingKeepTheBits) {
  expect_same_bits(
      {.spec = spec_of("chained_entries", ""), .options = {}, .tensors = many_domains()});
}

TEST_F(Extensions, AChainOfSumsWithTensorMemoryKeepsTheBits) {
  for (const char* codec : {"fp32", "int4"})
    expect_same_bits({.spec = spec_of("layer_norms", codec),
                      .options = {{"smooth", true}},
                      .tensors = many_domains()});
}

TEST_F(Extensions, ACodecWithASumOverTheTensorKeepsTheBits) {
  for (const char* rule : {"adamw", "lamb", "layer_norms"})
    expect_same_bits(
        {.spec = spec_of(rule, "tensor_scale8"), .options = {}, .tensors = many_domains()});
}

TEST_F(Extensions, ACodecWithMaximaAlongAxesAndRandomBitsKeepsTheBits) {
  expect_same_bits({.spec = spec_of("sgd", "axis_maxima8"),
                    .options = {{"momentum", 0.9}},
                    .tensors = many_domains()});
}

TEST_F(Extensions, AWeightFormatThatKeepsSomethingBesideTheParameterKeepsTheBits) {
  expect_same_bits({.spec = spec_of("adamw", "int8", "master32", Dtype::bfloat16, Dtype::bfloat16),
                    .options = {},
                    .tensors = odd_tensors()});
}

// The comparison itself: one bit of a gradient is enough to be seen.
TEST_F(Extensions, ADifferentSeedIsADifferentOutcome) {
  StepCase c{.spec = spec_of("adamw", "int8"), .options = {}, .tensors = {{.sizes = {300}}}};
  jit::CpuMachine cpu(jit::default_engine(), [](std::int64_t n, const auto& body) { body(0, n); });
  const Variant variant = jit::default_variant(c.spec, jit::Target::cpu());
  const StepOutcome one = run_case(c, cpu, variant);
  c.seed = 8;
  EXPECT_FALSE(differences(one, run_case(c, cpu, variant)).empty());
}

}  // namespace
}  // namespace jitstep::support
