#include "jit/codegen/spec_text.h"

#include <cmath>

#include "jit/fixtures.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << (text)

// The error message for an optimizer made from this text.
std::string refusal(const std::string& json) {
  return testing::error_of([&] {
    const SpecText spec = parse_spec(json);
    OptionValues values(spec.rule);
    for (const auto& [name, value] : spec.options) values.set(name, value);
    values.validate();
    check_formats(spec.formats, values);
  });
}

TEST(SpecText, SetsRuleOptionsAndFormats) {
  const SpecText spec = parse_spec(R"({"rule": "lamb",
      "options": {"lr": 1, "betas": [0.8, null], "weight_norm_max": null, "amsgrad": true},
      "state": {"m": "int8", "v": {"codec": "int8", "block": 128}}, "weights": "stochastic",
      "seed": 18446744073709551615, "min_quantized_size": 17})");
  EXPECT_EQ(spec.rule, "lamb");
  const NamedValues options = {{"lr", 1},
                               {"betas", Value::Numbers{0.8, std::nan("")}},
                               {"weight_norm_max", nullptr},
                               {"amsgrad", true}};
  EXPECT_EQ(spec.options, options);
  Formats formats;
  formats.slots = {{"m", {"int8"}}, {"v", {"int8", {{"block", 128}}}}};
  formats.weights = "stochastic";
  formats.seed = 0xffffffffffffffffu;
  formats.min_quantized_size = 17;
  EXPECT_EQ(spec.formats, formats);
}

TEST(SpecText, AnUnknownNameThrowsWithTheValidNames) {
  EXPECT_HAS(refusal(R"({"rule": "adamx"})"), "adamx");
  EXPECT_HAS(refusal(R"({"rule": "adamx"})"), "adamw");
  EXPECT_HAS(refusal(R"({"state": "int8"})"), "has no \"rule\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "colour": 1})"), "colour");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "colour": 1})"), "min_quantized_size");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"learning_rate": 1}})"), "learning_rate");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"learning_rate": 1}})"), "weight_decay");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": "int7"})"), "int7");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": "int7"})"), "int8");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"w": "int8"}})"), "Slots: m, v, vmax");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"codec": "int8", "blok": 1}})"), "blok");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "weights": "kahn"})"), "kahn");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"decay": "never"}})"), "before");
}

TEST(SpecText, NumbersOutOfRangeThrow) {
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": 1e999}})"), "1e999");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "min_quantized_size": 18446744073709551615})"),
             "must be an integer below 2^63, not 18446744073709551615");
}

TEST(SpecText, ADuplicateKeyThrows) {
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": 1, "betas": [0, 0], "lr": 2}})"),
             R"(has "lr" twice. Keep one.)");
  EXPECT_HAS(refusal(R"({"rule": "lion", "rule": "adamw"})"), R"(has "rule" twice)");
  EXPECT_NO_THROW(parse_spec(R"({"rule": "adamw", "state": {"m": {"codec": "int8", "block": 64},
                                                            "v": {"codec": "int8", "block": 64}}})"));
}

TEST(SpecText, DeepNestingThrows) {
  const std::string lists = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_HAS(refusal(lists), "nested too deeply");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": )" + lists + "}}"),
             "nested too deeply");
}

TEST(SpecText, AWrongTypeThrowsWithTheKey) {
  EXPECT_HAS(refusal("adamw"), "not valid JSON");
  EXPECT_HAS(refusal("[1]"), "must be an object");
  EXPECT_HAS(refusal(R"({"rule": 1})"), "\"rule\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": []})"), "\"options\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": "fast"}})"), "\"lr\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": {}}})"), "\"lr\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"betas": [0.9]}})"), "\"betas\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"betas": [0.9, "x"]}})"), "\"betas\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"amsgrad": 1}})"), "\"amsgrad\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": 8})"), "a codec");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"codec": "int8", "block": "big"}})"), "block");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "state": {"codec": "int8", "block": 100}})"), "block");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "seed": -1})"), "\"seed\"");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "min_quantized_size": 1.5})"), "\"min_quantized_size\"");
}

TEST(SpecText, RangesAreChecked) {
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"lr": -1}})"), "lr is -1");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "options": {"betas": [0.9, 1]}})"), "betas[1] is 1");
  EXPECT_HAS(refusal(R"({"rule": "sgd", "options": {"nesterov": true}})"), "Nesterov");
  EXPECT_HAS(refusal(R"({"rule": "adamw", "min_quantized_size": -1})"), "min_quantized_size is -1");
}

}  // namespace
}  // namespace jitstep::jit
