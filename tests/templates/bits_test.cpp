// The GPU schedule under emulation and the CPU schedule leave the same bits, however they are cut.
#include <gtest/gtest.h>

#include "jitstep/jit/text.h"
#include "support/emulated_machine.h"
#include "support/step_case.h"

namespace jitstep::support {
namespace {

using jit::CodecChoice;
using jit::Dtype;
using jit::KernelSpec;

void serial(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  body(0, count);
}

// The last part first, every item alone: as far from `serial` as threads can come.
void backwards(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  for (std::int64_t i = count; i-- > 0;) body(i, i + 1);
}

struct Way {
  const char* name;
  Variant variant;
  Grouping grouping;
  unsigned blocks;
  BlockOrder order;
  LaneOrder lanes;
};

// Block sizes, vector widths, chunks and launch groupings that any spec can take; codec blocks of 32
// to 256 hold a lane's vector in all of them.
const std::vector<Way>& ways() {
  static const std::vector<Way> ways = {
      {"default", {256, 32, 4, 16}, Grouping::kTogether, 4, BlockOrder::kForward, LaneOrder::kForward},
      {"one warp", {32, 32, 8, 4}, Grouping::kHalves, 3, BlockOrder::kReverse, LaneOrder::kReverse},
      {"half a warp", {64, 16, 4, 8}, Grouping::kEachAlone, 7, BlockOrder::kShuffled,
       LaneOrder::kRandom},
      {"scalar", {128, 32, 2, 32}, Grouping::kTogether, 2, BlockOrder::kReverse, LaneOrder::kForward},
  };
  return ways;
}

KernelSpec spec(const std::string& rule, const std::string& codec, const std::string& weights,
                Dtype parameter, Dtype gradient) {
  KernelSpec spec;
  spec.rule = rule;
  for (std::size_t i = 0; i < jit::default_catalog().rule(rule).slots.size(); ++i)
    spec.slots.push_back(CodecChoice{codec});
  spec.weights = weights;
  spec.parameter = parameter;
  spec.gradient = gradient;
  return spec;
}

std::string join(const std::vector<std::string>& names) {
  std::string all;
  for (const auto& name : names) all += name + "; ";
  return all;
}

void expect_same_bits(const StepCase& c) {
  jit::Engine& engine = jit::default_engine();
  jit::CpuMachine cpu(engine, serial), threads(engine, backwards);
  const Variant variant = jit::default_variant(c.spec, jit::Target::cpu());
  const StepOutcome expected = run_case(c, cpu, variant);
  EXPECT_EQ(join(differences(expected, run_case(c, threads, variant, Grouping::kEachAlone))), "")
      << "CPU, cut otherwise";
  for (const Way& way : ways()) {
    EmulatedMachine gpu(engine, way.blocks, way.order, way.lanes);
    EXPECT_EQ(join(differences(expected, run_case(c, gpu, way.variant, way.grouping))), "")
        << way.name;
  }
}

TEST(Bits, AdamWKeepsThemInEveryCodec) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4"}) {
    SCOPED_TRACE(codec);
    expect_same_bits({.spec = spec("adamw", codec, "native", Dtype::float32, Dtype::float32),
                      .options = {}, .tensors = odd_tensors()});
  }
}

TEST(Bits, LambKeepsThemInEveryCodec) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4"}) {
    SCOPED_TRACE(codec);
    expect_same_bits({.spec = spec("lamb", codec, "native", Dtype::float32, Dtype::float32),
                      .options = {{"weight_decay", 0.1}}, .tensors = odd_tensors()});
  }
}

TEST(Bits, EveryWeightFormatAndDtypeKeepsThem) {
  for (const auto& name : jit::default_catalog().names(jit::Manifest::Kind::weights))
    for (Dtype dtype : jit::default_catalog().weights(name).dtypes) {
      SCOPED_TRACE(name + " " + to_string(dtype));
      expect_same_bits({.spec = spec("adamw", "fp32", name, dtype, dtype), .options = {},
                        .tensors = odd_tensors()});
    }
}

TEST(Bits, SumsOverEveryTensorKeepThem) {
  expect_same_bits({.spec = spec("adamw", "int8", "native", Dtype::float32, Dtype::bfloat16),
                    .options = {{"max_grad_norm", 0.5}, {"centralization", 0.3}, {"maximize", true},
                                {"amsgrad", true}},
                    .tensors = odd_tensors()});
}

TEST(Bits, StridedAndGappedTensorsKeepThem) {
  const std::vector<TensorCase> tensors = {
      {.sizes = {37, 29}, .transposed = true},
      {.sizes = {37, 29}, .grad_transposed = true},
      {.sizes = {2, 13, 57}, .transposed = true, .grad_transposed = true, .gaps = true},
      {.sizes = {300}, .misalignment = 1, .gaps = true},
  };
  for (const char* codec : {"fp32", "int4"})
    expect_same_bits({.spec = spec("lamb", codec, "native", Dtype::float32, Dtype::float32),
                      .options = {{"centralization", 1.0}}, .tensors = tensors});
}

TEST(Bits, ValuesThatAreNotFiniteKeepThem) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4"})
    expect_same_bits({.spec = spec("adamw", codec, "native", Dtype::float32, Dtype::float32),
                      .options = {}, .tensors = odd_tensors(), .special_values = true});
}

}  // namespace
}  // namespace jitstep::support
