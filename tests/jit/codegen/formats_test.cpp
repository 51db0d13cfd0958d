#include "jitstep/jit/plan.h"

#include "jit/codegen/spec_text.h"
#include "jit/fixtures.h"
#include "jit/user_templates.h"
#include "jitstep/jit/option_values.h"
#include "support/plain_steps.h"

namespace jitstep::jit {
namespace {

TEST(Formats, ACodecIsANameOrAnObject) {
  EXPECT_EQ(parse_codec("int8"), (CodecChoice{"int8", {}}));
  const auto codec = parse_codec(R"({"codec": "int8", "block": 128, "positive_floor": false})");
  EXPECT_EQ(codec, (CodecChoice{"int8", {{"block", 128}, {"positive_floor", false}}}));
  EXPECT_EQ(parse_codec(to_json(codec)), codec);
}

TEST(Formats, AMistakeInTheJsonOfACodecIsLocated) {
  const std::pair<const char*, const char*> mistakes[] = {
      {R"({int8})", R"("int8}" at character 2)"},
      {R"({"codec": "int8", block: 128})", R"("block: 128}" at character 19)"},
      {R"({"codec": "int8", "block": 128)", "ends too early"},
      {R"({"codec": "int8", "block": 1e999})", "the number '1e999' is too large"},
      {"{\"codec\": \"\xea\"}", "at character 13"}};
  for (const auto& [text, part] : mistakes) {
    const std::string message = testing::error_of([&, text = text] { parse_codec(text); });
    EXPECT_NE(message.find("not valid JSON"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
  }
}

TEST(Formats, WritesANameThatIsNotUtf8) {
  EXPECT_EQ(to_json(parse_codec("int8\xea")), "{\"codec\":\"int8\xef\xbf\xbd\"}");
}

TEST(Formats, RoundTripThroughJson) {
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

TEST(Formats, SmallParametersUseFp32IfTheCodecHasBlocks) {
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

TEST(Formats, UnsuitableFormatsFallBackPerParameter) {
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

// A rule whose slot exists for large matrices only.
const char* const kSizedRule = R"(#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::sized {
struct Hyper {
  double lr = 0.5;      // >= 0
  double least = 4097;  // >= 0
};
struct Flags {
  bool kept = false;  // lifted: numel >= least
};
struct Slots {
  Signed m;  // if kept
};
template <Flags F>
struct Rule {
  KHD static void update_state(auto& e, const auto&) {
    if (F.kept) e.m.next = e.g;
  }
  KHD static void update_param(auto& e, const auto&) { e.p -= e.g; }
};
}
)";

TEST(Formats, FlagsFollowTheSizesOfAParameter) {
  const std::map<std::string, std::string> texts = {{"rules/sized.cuh", kSizedRule}};
  support::OwnTemplates own(texts);
  OptionValues values("sized", own.catalog);
  const auto plan = [&](const ParameterKind& kind) { return resolve(values, {}, kind); };
  const Plan large = plan({Dtype::float32, 2, 4097, {17, 241}});
  const Plan small = plan({Dtype::float32, 2, 4096, {64, 64}});
  EXPECT_TRUE(large.spec.state.slots[0]);
  EXPECT_FALSE(small.spec.state.slots[0]);
  EXPECT_FALSE(large.is_same_kernel(small));
  EXPECT_TRUE(plan({Dtype::float32, 1, 1 << 20}).is_same_kernel(large)) << "a vector";
  EXPECT_TRUE(plan({Dtype::float32, 1, 1, {}}).is_same_kernel(small)) << "a scalar";
  EXPECT_TRUE(plan({Dtype::float32, 3, 0, {}}).is_same_kernel(large)) << "of unknown sizes";
  EXPECT_NO_THROW(large.at_step(values, 1));
  EXPECT_NO_THROW(small.at_step(values, 1));
  values.set("least", 4098);
  EXPECT_THROW(large.at_step(values, 1), Error) << "it needs another kernel";
  EXPECT_NO_THROW(small.at_step(values, 1));
}

TEST(Formats, DimensionsThatTheKernelCannotReadAreRefused) {
  const ParameterKind nine{Dtype::float32, 9, 8, {2, 1, 1, 1, 1, 1, 1, 2, 2}};
  const auto problem = [&](const char* rule) -> std::string {
    try {
      resolve(OptionValues(rule), {}, nine);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(problem("adafactor").find("9 dimensions"), std::string::npos) << "it sums over rows";
  EXPECT_NE(problem("amos").find("9 dimensions"), std::string::npos) << "it takes sizes";
  EXPECT_EQ(problem("adamw"), "no error") << "the parameter is a vector for its kernel";
}

TEST(Formats, FactoredStateTakesNoMoreThanFp32) {
  const OptionValues values("adamw");
  const auto kept_as = [&](const std::string& codec, const std::vector<std::int64_t>& sizes) {
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    const Formats formats{.slots = {{"v", CodecChoice{codec}}}};
    return format_of(values, formats,
                     {Dtype::float32, static_cast<int>(sizes.size()), elements, sizes})
        .slots[1]
        ->name;
  };
  EXPECT_EQ(kept_as("factored", {256, 256}), "factored");
  EXPECT_EQ(kept_as("factored", {64, 64, 5, 5}), "factored")
      << "8 (1/5 + 1/5) bytes are fewer than 4";
  EXPECT_EQ(kept_as("factored", {64, 64, 3, 3}), "int4") << "8 (1/3 + 1/3) bytes are more";
  EXPECT_EQ(kept_as("factored", {256, 256, 1, 1}), "int4");
  EXPECT_EQ(kept_as("factored", {1, 8192}), "int4");
  EXPECT_EQ(kept_as("int4_rank1", {64, 64, 3, 3}), "int4_rank1")
      << "it has one for each dimension's indices";
  EXPECT_EQ(kept_as("int4_rank1", {8192, 1}), "int4");
  const Formats every{.slots = {{"v", CodecChoice{"factored"}}}, .min_quantized_size = 0};
  EXPECT_EQ(format_of(values, every, {Dtype::float32, 2, 15, {3, 5}}).slots[1]->name, "factored")
      << "asked for of all";
}

class SlotsWithOwnCodec : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_file(folder_ / "anchored.cuh", testing::kAnchoredText);
    default_catalog().load_rule(folder_ / "anchored.cuh");
  }

  // The codecs of the slot with a `codec:` note and of the other slot.
  std::string codecs(const Formats& formats) {
    const auto slots =
        format_of(OptionValues("anchored"), formats, {Dtype::float32, 1, 1 << 20}).slots;
    return slots[0]->name + " " + slots[1]->name;
  }

  testing::TemporaryFolder folder_;
  const CodecChoice int8_{"int8"}, int4_{"int4"}, bf16_{"bf16"};
};

TEST_F(SlotsWithOwnCodec, AreReplacedOnlyByACodecForThatSlot) {
  EXPECT_EQ(codecs({}), "fp32 fp32");
  EXPECT_EQ(codecs({.state = int8_}), "fp32 int8");
  EXPECT_EQ(codecs({.state = int8_, .slots = {{"z", bf16_}}}), "bf16 int8");
  EXPECT_EQ(codecs({.slots = {{"anchor", int4_}}}), "int4 fp32") << "torch's name of it";
  const Plan plan = resolve(OptionValues("anchored"), int8_);
  EXPECT_EQ(plan.codec(0)->name, "fp32");
  EXPECT_EQ(plan.codec(1)->name, "int8");
}

TEST_F(SlotsWithOwnCodec, AreInheritedFromDefaultsThatNameThemEvenIfAllSlotsGetAnotherCodec) {
  const Manifest& rule = default_catalog().rule("anchored");
  const Formats defaults{.state = int4_, .slots = {{"z", bf16_}, {"m", bf16_}}};
  Formats nothing, all{.state = int8_}, own{.slots = {{"anchor", int8_}}};
  for (Formats* formats : {&nothing, &all, &own}) formats->inherit(defaults, rule);
  EXPECT_EQ(codecs(nothing), "bf16 bf16");
  EXPECT_EQ(codecs(all), "bf16 int8") << "for all slots without a codec of their own in the file";
  EXPECT_EQ(codecs(own), "int8 bf16") << "under either name";
}

TEST(FormatsOfSlots, ThatAreNamedTwiceMustAgree) {
  const OptionValues adamw("adamw");
  const CodecChoice int4{"int4"}, int8{"int8"};
  EXPECT_NO_THROW(check_formats({.slots = {{"m", int4}, {"exp_avg", int4}}}, adamw));
  EXPECT_EQ(testing::error_of([&] {
              check_formats({.slots = {{"m", int4}, {"exp_avg", int8}}}, adamw);
            }),
            "the slot m of adamw has two codecs, as \"exp_avg\" and as \"m\". Name it once.");
}

TEST(DefaultFormats, DependOnTheRulesOptionsAndYieldToTheUsers) {
  OptionValues values("lamb16");
  const ParameterKind small{Dtype::float32, 1, 4095}, large{Dtype::float32, 1, 4096};
  EXPECT_EQ(format_of(values, {}, large).slots[1]->name, "int8_softsign");
  EXPECT_EQ(format_of(values, {}, small).slots[1]->name, "fp32");
  EXPECT_EQ(format_of(values, {.slots = {{"v", CodecChoice{"bf16"}}}}, large).slots[1]->name,
            "bf16");
  values.set("form", "original");
  EXPECT_EQ(format_of(values, {}, small).slots[1]->name, "fp8_norm");
  EXPECT_EQ(format_of(values, {.state = CodecChoice{"int8"}}, large).slots[1]->name, "int8");
}

// Options that a rule's file gives for a codec apply however the codec was chosen, unless the user sets them.
TEST(DefaultFormats, GiveCodecOptionsForEverySlotOfTheRule) {
  const auto least_norm = [](const char* rule, const char* form, const CodecChoice& state) {
    OptionValues values(rule);
    if (form != nullptr) values.set("form", form);
    const auto format = format_of(values, {.state = state}, {Dtype::float32, 1, 4096});
    return to_string(format.slots[0]->options.at("least_norm"));
  };
  EXPECT_EQ(least_norm("lamb16", "original", {"fp8_norm"}), "eps");
  EXPECT_EQ(least_norm("lamb16", "corrected", {"fp8_norm"}), "eps");
  EXPECT_EQ(least_norm("lamb16", "corrected", {"fp8_norm", {{"least_norm", 0.5}}}), "0.5");
  EXPECT_EQ(least_norm("adamw", nullptr, {"fp8_norm"}), "1e-06");
  EXPECT_EQ(least_norm("adamw", nullptr, {"fp8_norm", {{"least_norm", "eps"}}}), "eps");
}

TEST(CodecNumbers, OfARuleMustBePlainAndInRange) {
  const auto problem = [](const char* rule, const char* name) {
    return testing::error_of([&] {
      check_formats({.state = CodecChoice{"fp8_norm", {{"least_norm", name}}}}, OptionValues(rule));
    });
  };
  EXPECT_EQ(problem("adamw", "epsilon"),
            "fp8_norm: least_norm expects a number, or the name of a number of adamw. It has no "
            "number \"epsilon\".");
  EXPECT_NE(problem("adamw", "betas").find("no number \"betas\""), std::string::npos);
  EXPECT_NE(problem("adamw", "amsgrad").find("no number \"amsgrad\""), std::string::npos);
  EXPECT_NE(problem("adamw", "clipping_threshold").find("no number"), std::string::npos);
  EXPECT_EQ(
      problem("asgd", "t0"),
      "fp8_norm: least_norm must be >= 0, but asgd's t0 can have other values: it must be finite");
}

TEST(CodecNumbers, DoNotChangeCodes) {
  const CodecChoice plain{"fp8_norm"}, half{"fp8_norm", {{"least_norm", 0.5}}},
      eps{"fp8_norm", {{"least_norm", "eps"}}}, int8{"int8"}, small{"int8", {{"block", 64}}},
      explicit_default{"int8", {{"block", 256}}};
  EXPECT_TRUE(same_codes(plain, half));
  EXPECT_TRUE(same_codes(eps, half));
  EXPECT_TRUE(same_codes(int8, explicit_default));
  EXPECT_FALSE(same_codes(int8, small));
  EXPECT_FALSE(same_codes(int8, plain));
}

TEST(DefaultFormats, UseTheFirstLineWhoseConditionHolds) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "sized.cuh", R"(// Descent.   default state: int8
// min_quantized_size: 0 if everywhere
// min_quantized_size: 100
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::sized {
struct Flags {
  bool everywhere = false;
};
struct Slots {
  Signed m;
};
template <Flags F>
struct Rule {
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.g; }
  KHD static void update_param(auto& e, const auto&) { e.p -= e.m.next; }
};
}
)");
  default_catalog().load_rule(folder / "sized.cuh");
  OptionValues values("sized");
  const auto codec = [&](std::int64_t elements, const Formats& formats = {}) {
    return format_of(values, formats, {Dtype::float32, 1, elements}).slots[0]->name;
  };
  EXPECT_EQ(codec(99) + " " + codec(100), "fp32 int8");
  EXPECT_EQ(codec(4095, {.min_quantized_size = 4096}), "fp32");
  values.set("everywhere", true);
  EXPECT_EQ(codec(1), "int8");
  EXPECT_EQ(codec(1, {.min_quantized_size = 2}), "fp32");
}

}  // namespace
}  // namespace jitstep::jit
