#include "jitstep/jit/formats.h"

#include "jit/codegen/spec_text.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

TEST(Formats, ACodecIsANameOrAnObject) {
  EXPECT_EQ(parse_codec("int8"), (CodecChoice{"int8", {}}));
  const auto codec = parse_codec(R"({"codec": "int8", "block": 128, "positive_floor": false})");
  EXPECT_EQ(codec, (CodecChoice{"int8", {{"block", 128}, {"positive_floor", false}}}));
  EXPECT_EQ(parse_codec(to_json(codec)), codec);
  EXPECT_NE(testing::error_of([] { parse_codec("{int8}"); }).find("not valid JSON"),
            std::string::npos);
}

TEST(Formats, ANameThatIsNotUtf8IsWrittenAllTheSame) {
  EXPECT_EQ(to_json(parse_codec("int8\xea")), "{\"codec\":\"int8\xef\xbf\xbd\"}");
}

TEST(Formats, GoThroughJson) {
  Formats formats;
  EXPECT_EQ(formats_from_json(to_json(formats)), formats);
  formats.state = parse_codec("int8");
  formats.slots["v"] = parse_codec(R"({"codec": "int4", "block": 64})");
  formats.weights = "stochastic";
  formats.seed = 0xffffffffffffffffu;
  formats.min_quantized_size = 17;
  EXPECT_EQ(formats_from_json(to_json(formats)), formats);
}

StateFormat format_of(const OptionValues& values, const Formats& formats,
                      const ParameterKind& parameter) {
  return resolve(values, formats, parameter).spec.state;
}

TEST(Formats, SmallParametersKeepFp32WhereTheCodecHasBlocks) {
  const OptionValues values("adamw");
  Formats formats;
  formats.state = parse_codec("int8");
  formats.slots["exp_avg_sq"] = parse_codec("bf16");
  const auto small = format_of(values, formats, {Dtype::float32, 1, 4095});
  EXPECT_EQ(small.slots[0]->name, "fp32");
  EXPECT_EQ(small.slots[1]->name, "bf16");
  EXPECT_FALSE(small.slots[2]) << "vmax is there with amsgrad only";
  EXPECT_EQ(format_of(values, formats, {Dtype::float32, 1, 4096}).slots[0]->name, "int8");
  formats.min_quantized_size = 0;
  EXPECT_EQ(format_of(values, formats, {Dtype::float32, 1, 1}).slots[0]->name, "int8");
}

TEST(Formats, WhatIsNotForAParameterFallsBack) {
  const OptionValues values("adamw");
  Formats formats;
  formats.state = CodecChoice{"int8"};
  formats.slots["v"] = CodecChoice{"bf16"};
  formats.weights = "stochastic";
  const auto wide = format_of(values, formats, {Dtype::float64, 1, 1 << 20});
  EXPECT_EQ(wide.slots[0]->name, "fp32");
  EXPECT_EQ(wide.slots[1]->name, "fp32");
  EXPECT_EQ(wide.weights, "native");
  const auto half = format_of(values, formats, {Dtype::bfloat16, 1, 1 << 20});
  EXPECT_EQ(half.slots[0]->name, "int8");
  EXPECT_EQ(half.slots[1]->name, "bf16");
  EXPECT_EQ(half.weights, "stochastic");
  EXPECT_EQ(format_of(values, formats, {Dtype::float32, 1, 1 << 20}).weights, "native");
}

}  // namespace
}  // namespace jitstep::jit
