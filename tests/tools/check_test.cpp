// `jitstep check`, as authors of rules and codecs run it.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/check_tool.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using namespace testing;

const std::string kExamples = JITSTEP_SOURCE_DIR "/examples/";

TEST_F(CheckTool, DescribesAValidRuleAndReportsSuccess) {
  const Finished checked = run(kExamples + "signum.cuh");
  EXPECT_EQ(checked.status, 0) << checked.output;
  for (const char* line :
       {"signum.cuh: the rule signum, class Signum\n", "\nlr            0.001    >= 0\n",
        "\nmomentum      0.9      in [0, 1)\n", "\nm     signed  momentum_buffer  always\n",
        "\nsignum_fp32_bfloat16_stochastic ", "  kept      the same ", "  m 4.000\n",
        "\nno problems: 2 kernels\n"})
    EXPECT_TRUE(says(checked, line)) << line << checked.output;
  EXPECT_FALSE(says(checked, "[1/")) << "progress is printed only on terminals";
}

TEST_F(CheckTool, WarnsOfAnOptionThatNothingUses) {
  const Finished checked =
      run(rule_with("  double lr = 1e-3;  // > 0\n",
                    "  double lr = 1e-3;  // > 0\n  double lost = 1;  // finite\n"));
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_TRUE(says(checked, "warning: the rule declares `lost`, but does not use it"))
      << checked.output;
}

// Some options are read by an included file, by conditions and notes, or by a host transform.
TEST_F(CheckTool, FindsAUseOfEachOptionOfEachShippedRule) {
  for (const auto& file :
       std::filesystem::directory_iterator(JITSTEP_SOURCE_DIR "/templates/rules")) {
    const Finished checked = run(file.path(), kFew, kNoCompiler);
    EXPECT_FALSE(says(checked, "does not use it")) << file.path() << checked.output;
    EXPECT_TRUE(says(checked, "not checked: ")) << file.path() << checked.output;
  }
}

TEST_F(CheckTool, ReportsTheResourcesOfGpuEntries) {
  if (no_nvrtc()) GTEST_SKIP() << "no NVRTC";
  const Finished checked =
      run(rule(), {"--states", "fp32", "--weights", "stochastic", "--target", "sm_90", "--json"});
  EXPECT_EQ(checked.status, 0) << checked.output;
  const json target = json::parse(checked.output).at("kernels").at(0).at("targets").at(1);
  EXPECT_EQ(target.at("target"), "sm_90");
  EXPECT_EQ(target.at("compiled"), true);
  EXPECT_GT(target.at("compile_ms"), 0);
  const json entry = target.at("entries").at(0);
  EXPECT_EQ(entry.at("entry"), "jitstep_apply");
  EXPECT_GT(entry.at("registers"), 0);
  for (const char* bytes : {"shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes"})
    EXPECT_GE(entry.at(bytes), 0) << bytes;
}

TEST_F(CheckTool, DescribesACodecAsJson) {
  const Finished checked = run(kExamples + "linear8.cuh", {"--target", "cpu", "--json"});
  EXPECT_EQ(checked.status, 0) << checked.output;
  const json all = json::parse(checked.output);
  EXPECT_EQ(all.at("file"), kExamples + "linear8.cuh");
  EXPECT_EQ(all.at("manifest").at("kind"), "codec");
  EXPECT_EQ(all.at("manifest").at("name"), "linear8");
  EXPECT_TRUE(all.at("problems").empty());
  EXPECT_TRUE(all.at("warnings").empty()) << all.at("warnings");
  EXPECT_TRUE(all.at("unchecked").empty());
  EXPECT_EQ(all.at("status"), 0);
  std::set<std::string> rules;
  for (const json& kernel : all.at("kernels")) {
    const std::string name = kernel.at("name");
    rules.insert(name.substr(0, name.find('_')));
    EXPECT_EQ(kernel.at("keeps_contract"), true) << name;
    EXPECT_EQ(kernel.at("same_bits"), true) << name;
    EXPECT_GE(kernel.at("launches"), 1) << name;
    EXPECT_GT(kernel.at("state_bytes_per_parameter").at("all"), 1) << name;
    EXPECT_FALSE(kernel.at("spec").get<std::string>().empty()) << name;
  }
  EXPECT_EQ(rules, (std::set<std::string>{"adamw", "lamb", "sgd"}));
}

TEST_F(CheckTool, DescribesOptionsSlotsAndAuxStateAsJson) {
  const std::string file =
      rule_with("struct Slots {",
                "struct AuxState {\n  Entry<tensor> n;  // torch: count\n};\nstruct Slots {");
  const json all =
      json::parse(run(file, with(kFew, {"--json"}), kNoCompiler).output).at("manifest");
  EXPECT_EQ(all.at("class"), "Mine");
  EXPECT_EQ(all.at("options").at(0).at("name"), "lr");
  EXPECT_EQ(all.at("options").at(0).at("default"), 0.001);
  EXPECT_EQ(all.at("options").at(0).at("range"), "> 0");
  EXPECT_EQ(all.at("slots"),
            (json{{{"name", "m"}, {"signed", true}, {"torch", "buffer"}, {"if", nullptr}}}));
  EXPECT_EQ(all.at("aux_state"), (json{{{"name", "n"},
                                        {"domain", "tensor"},
                                        {"type", "real"},
                                        {"torch", "count"},
                                        {"if", nullptr}}}));
}

TEST_F(CheckTool, ReachesEveryFlagValueThatSomeOptionsSetAndListsTheOthers) {
  std::string rule = kRule;
  const auto put = [&](const std::string& before, const std::string& lines) {
    rule.insert(rule.find(before), lines);
  };
  put("struct Hyper {", "enum class Form { plain, bent, split };\n");
  put("  double lr", "  double damping = 0;  // >= 0\n");
  put("struct Slots",
      "struct Flags {\n  bool wide = false;\n  Form form = Form::plain;\n"
      "  bool damped = false;  // lifted: damping != 0\n"
      "  bool tall = false;    // lifted: dims >= 3\n"
      "  bool never = false;   // lifted: lr > 5 && lr < 4\n};\n"
      "// refuse: wide && damping == 0, wide needs damping\n");
  put("struct Rule", "template <Flags F>\n");
  testing::write_file(folder_ / "mine.cuh", rule);
  const Finished checked = run(folder_ / "mine.cuh", with(kFew, {"--json"}));
  EXPECT_EQ(checked.status, 3) << checked.output;
  std::string specs;
  const json all = json::parse(checked.output);
  EXPECT_TRUE(all.at("problems").empty()) << checked.output;
  ASSERT_EQ(all.at("unchecked").size(), 1u) << checked.output;
  EXPECT_NE(all.at("unchecked").at(0).get<std::string>().find("kernels with never=true:"),
            std::string::npos)
      << checked.output;
  for (const json& kernel : all.at("kernels")) specs += kernel.at("spec").get<std::string>() + "\n";
  for (const char* flag : {"wide=true", "wide=false", "form=plain", "form=bent", "form=split",
                           "damped=true", "damped=false", "tall=true", "tall=false"})
    EXPECT_NE(specs.find(flag), specs.npos) << flag << " in " << specs;
}

TEST_F(CheckTool, TriesEveryCodecWithOptionsThatStoreASlot) {
  std::string rule = kRule;
  rule.insert(rule.find("struct Slots"),
              "struct Flags {\n  bool tall = false;  // lifted: dims >= 3\n};\n");
  rule.insert(rule.find("struct Rule"), "template <Flags F>\n");
  rule.replace(rule.find("torch: buffer"), 13, "torch: buffer; if tall");
  testing::write_file(folder_ / "mine.cuh", rule);
  const Args args = {"--states", "fp32,int8", "--weights", "stochastic",
                     "--target", "cpu",       "--json"};
  const json all = json::parse(run(folder_ / "mine.cuh", args).output);
  std::multiset<std::string> states;
  for (const json& kernel : all.at("kernels")) {
    const auto spec = kernel.at("spec").get<std::string>();
    if (spec.find("tall=true") != spec.npos) states.insert(spec.substr(spec.find("state["), 10));
  }
  EXPECT_EQ(states, (std::multiset<std::string>{"state[fp32", "state[int8"}));
}

// Other bits for these tensors alone show that they are stepped.
TEST_F(CheckTool, StepsTensorsWithTheDimensionsThatAFlagRequires) {
  std::string rule = kRule;
  rule.insert(rule.find("struct Slots"),
              "struct Flags {\n  bool deep = false;  // lifted: dims == 5 && lr > 100\n};\n");
  rule.insert(rule.find("struct Rule"), "template <Flags F>\n");
  rule.insert(rule.find("e.p -= c.lr"),
              "\n#ifdef JITSTEP_EMULATION\nif constexpr (F.deep) e.p += 1;\n#endif\n");
  testing::write_file(folder_ / "mine.cuh", rule);
  const Finished checked = run(folder_ / "mine.cuh");
  EXPECT_EQ(checked.status, 1) << checked.output;
  EXPECT_TRUE(says(checked, "(2 x 2 x 2 x 2 x 33) is ")) << checked.output;
  EXPECT_TRUE(says(checked, "1 problem in 3 kernels")) << checked.output;
}

// ---- mistakes in a file ----

TEST_F(CheckTool, NamesASlotThatARuleLeavesUnset) {
  expect_wrong(rule_with("e.m.next = e.m.prev + e.g;", "if (e.g > 1000) e.m.next = e.g;"),
               "mine.cuh: `update_state` does not set e.m.next");
}

TEST_F(CheckTool, ReportsWhereARuleDoesNotCompile) {
  const std::string file = rule_with("e.p -= c.lr", "e.p -= e.q");
  expect_wrong(file, file + ":15: ");
  const json problem = json::parse(run(file, with(kFew, {"--json"})).output).at("problems").at(0);
  EXPECT_NE(problem.at("what").get<std::string>().find("'q'"), std::string::npos);
  EXPECT_NE(problem.at("details").get<std::string>().find("compiling mine_"), std::string::npos);
  EXPECT_EQ(problem.at("kernels").size(), 2u);
}

TEST_F(CheckTool, RejectsThreadsAndLibm) {
  const std::string file = rule_with("+ e.g;", "+ e.g * threadIdx.x;");
  expect_wrong(file, file + ":14: `threadIdx` is specific to one compiler");
  expect_wrong(rule_with("+ e.g;", "+ expf(e.g);"), "mine.cuh:14: ");
}

TEST_F(CheckTool, NamesTheTargetThatRejectsARule) {
  if (no_nvrtc()) GTEST_SKIP() << "no NVRTC";
  const std::string file = rule_with("e.m.next = e.m.prev + e.g;",
                                     "e.m.next = e.m.prev + e.g; if (sizeof(e) == 0) throw 1;");
  const Args args = {"--states", "fp32", "--weights", "stochastic", "--target", "sm_90", "--json"};
  const Finished checked = run(file, args);
  EXPECT_EQ(checked.status, 1) << checked.output;
  const json kernel = json::parse(checked.output).at("kernels").at(0);
  EXPECT_EQ(kernel.at("targets").at(0).at("compiled"), true);
  EXPECT_EQ(kernel.at("targets").at(1).at("target"), "sm_90");
  EXPECT_EQ(kernel.at("targets").at(1).at("compiled"), false);
  EXPECT_EQ(kernel.at("same_bits"), true) << "the other checks must still run";
}

TEST_F(CheckTool, ReportsWhereTheEmulationGivesOtherBits) {
  const std::string file = rule_with("e.m.next = e.m.prev + e.g;",
                                     "e.m.next = e.m.prev + e.g;\n#ifdef JITSTEP_EMULATION\n"
                                     "    if (e.g > real(0.9)) e.m.next += 1;\n#endif\n");
  const Finished checked = run(file);
  EXPECT_EQ(checked.status, 1) << checked.output;
  EXPECT_TRUE(says(checked, "error: after step 1, p[")) << checked.output;
  EXPECT_TRUE(says(checked, "in the emulation with the GPU's default configuration"))
      << checked.output;
  EXPECT_TRUE(says(checked, "kept      different ")) << checked.output;
}

TEST_F(CheckTool, ReportsAResultThatPoisonedInputsChange) {
  const std::string file =
      rule_with("e.m.next = e.m.prev + e.g;",
                "e.m.next = e.m.prev + e.g;\n#ifdef JITSTEP_CHECK\n    if (e.g "
                "> real(0.9)) e.m.next = 0;\n#endif\n");
  expect_wrong(file, "poisoned");
}

// DescribesACodecAsJson shows that right rules cause none.
TEST_F(CheckTool, WarnsAboutARuleThatClimbsSlowly) {
  const Finished slow = run(rule_with("e.p -= c.lr * e.m.next", "e.p += c.lr * e.g"), kNative);
  EXPECT_EQ(slow.status, 0) << slow.output;
  EXPECT_TRUE(says(slow, "warning: on a quadratic function")) << slow.output;
  EXPECT_TRUE(says(slow, "300 steps increase it")) << slow.output;
  EXPECT_TRUE(says(slow, "1 warning")) << slow.output;
}

TEST_F(CheckTool, WarnsAboutARuleThatStandsStill) {
  const Finished still = run(rule_with("e.p -= c.lr * e.m.next", "e.p += 0 * c.lr"), kNative);
  EXPECT_TRUE(says(still, "300 steps change no parameter")) << still.output;
}

TEST_F(CheckTool, ReportsANegativeValueInANonNegativeSlot) {
  expect_wrong(rule_with("Signed m;", "NonNegative m;"),
               "step 1: `update_state` sets e.m.next to -", kNative);
}

TEST_F(CheckTool, ReportsANegativeValueWhoseRootIsNaN) {
  const std::string file = rule_with("Signed m;", "NonNegative m;");
  std::string rule = read_code_file(file);
  const std::string used = "c.lr * e.m.next";
  ASSERT_NE(rule.find(used), rule.npos);
  rule.replace(rule.find(used), used.size(), "c.lr * sqrt(e.m.next)");
  write_file(file, rule);
  expect_wrong(file, "step 1: `update_state` sets e.m.next to -", kNative);
}

TEST_F(CheckTool, SetsNumbersAtConstruction) {
  const std::string file = rule_with(
      "struct Hyper {", "struct Hyper {\n  Nullable first = null;  // >= 0; at construction: lr");
  std::string rule = read_code_file(file);
  const std::string used = "static_cast<real>(h.lr)";
  ASSERT_NE(rule.find(used), rule.npos);
  rule.replace(rule.find(used), used.size(), "static_cast<real>(h.first.value)");
  write_file(file, rule);
  const Finished checked = run(file, kNative);
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_FALSE(says(checked, "warning")) << checked.output;
}

// A codec of the examples or tests, with `right` replaced by `wrong`.
class CheckToolOfACodec : public CheckTool {
 protected:
  Finished check(const std::string& file, const std::string& right, const std::string& wrong) {
    std::string codec = read_code_file(file);
    EXPECT_NE(codec.find(right), codec.npos) << right;
    codec.replace(codec.find(right), right.size(), wrong);
    const std::string copy = folder_ / testing::fs::path(file).filename().string();
    testing::write_file(copy, codec);
    return run(copy, {"--target", "cpu", "--json"});
  }

  static double lost(const Finished& checked, const std::string& slot) {
    return json::parse(checked.output).at("kernels").at(0).at("lost").at(slot).get<double>();
  }

  static void expect_lost(const Finished& checked, const std::string& slot) {
    EXPECT_EQ(checked.status, 1) << checked.output;
    const json problems = json::parse(checked.output).at("problems");
    ASSERT_FALSE(problems.empty());
    const std::string what = problems.at(0).at("what");
    EXPECT_NE(what.find("round-trip error of slot '" + slot + "' is "), what.npos) << what;
    EXPECT_NE(what.find(" bits may lose at most "), what.npos) << what;
    const json kernels = json::parse(checked.output).at("kernels");
    for (const json& kernel : kernels)
      EXPECT_TRUE(kernel.at("keeps_contract").is_null()) << "nothing else is checked";
  }

  const std::string linear_ = kExamples + "linear8.cuh";
  const std::string remembering_ = JITSTEP_TEST_DATA "/templates/extensions/tensor_scale8.cuh";
};

TEST_F(CheckToolOfACodec, ReportsTheRoundTripError) {
  for (const std::string& file : {linear_, remembering_}) {
    const Finished right = check(file, "#pragma once", "#pragma once");
    EXPECT_EQ(right.status, 0) << right.output;
    for (const char* slot : {"m", "v"}) {
      EXPECT_GT(lost(right, slot), 0.0005) << file;
      EXPECT_LT(lost(right, slot), 0.03) << file;
    }
  }
  EXPECT_TRUE(says(run(linear_, {"--target", "cpu"}), "contract  bits      lost "));
}

TEST_F(CheckToolOfACodec, ReportsADecodeThatReturnsOtherNumbers) {
  for (const char* wrong : {"return 0 * ", "return real(0.4) * ", "return 1.3f * ", "return -"})
    expect_lost(check(linear_, "return scaled(", str_cat(wrong, "scaled(")), "m");
  for (const char* wrong : {"return 0 * ", "return real(0.4) * "})
    expect_lost(check(remembering_, "return static_cast<real>(static_cast<int>(code)",
                      str_cat(wrong, "static_cast<real>(static_cast<int>(code)")),
                "m");
}

TEST_F(CheckToolOfACodec, ReportsAnInfiniteScale) {
  expect_lost(check(linear_, "return {float_of(key[0])};", "return {float_of(0x7f800000u)};"), "m");
}

TEST_F(CheckToolOfACodec, ReportsAuxStateThatNeverChanges) {
  expect_lost(check(remembering_, "    m.norm.next =", "    const real lost ="), "m");
}

TEST_F(CheckToolOfACodec, ReportsOldCodesThatAreDecodedWithTheNewScale) {
  expect_lost(check(remembering_, "* (m.norm.prev / 127)", "* (m.norm.next / 127)"), "m");
}

TEST_F(CheckTool, AcceptsOnlyRulesAndCodecs) {
  expect_wrong(JITSTEP_TEST_DATA "/templates/extensions/master32.cuh",
               "expected `namespace jitstep::rules::master32 {` of a rule, or `namespace "
               "jitstep::codecs::master32 {` of a codec, but found `jitstep::weights::master32`");
  expect_wrong(folder_ / "none.cuh", "none.cuh");
  for (const char* file : {"/README.md", "/tests/golden/lamb16_wd.safetensors", "/LICENSE"})
    expect_wrong(JITSTEP_SOURCE_DIR + std::string(file),
                 ":1: expected `namespace jitstep::rules::");
  expect_wrong(JITSTEP_SOURCE_DIR "/README.md", "README {` of a codec, but found neither");
  expect_wrong(rule_with("* e.m.next", "* int4(e.m.next)"),
               "mine.cuh:15: `int4` is specific to one compiler");
  expect_wrong(rule_with("1e-3;", "many;"), "mine.cuh:6: ");
  const json all = json::parse(run(folder_ / "none.cuh", {"--json"}).output);
  EXPECT_EQ(all.at("status"), 1);
  EXPECT_EQ(all.at("problems").size(), 1u);
  EXPECT_FALSE(all.contains("manifest"));
}

// ---- arguments, and missing compilers ----

TEST_F(CheckTool, RejectsUnknownArguments) {
  for (const Args& args : {Args{"--states", "none"},
                           {"--weights", "none"},
                           {"--target", "sm_"},
                           {"--target", "emulated"},
                           {"--states", "{\"codec\": 8}"},
                           {"--no"}}) {
    const Finished failed = run(rule(), args);
    EXPECT_EQ(failed.status, 2) << args[0] << failed.output;
  }
  EXPECT_EQ(run(kExamples + "linear8.cuh", {"--states", "fp32"}).status, 2);
  EXPECT_EQ(run_tool({"check"}).status, 2);
  const Finished help = run_tool({"check", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"--states", "--weights", "--target", "--json", "Exit status: 0 "})
    EXPECT_TRUE(says(help, word)) << word;
}

TEST_F(CheckTool, RejectsAGpuUnknownToNvrtcBeforeItCompilesAnything) {
  if (no_nvrtc()) GTEST_SKIP() << "no NVRTC";
  const std::string cache = folder_ / "cache";
  const Finished failed =
      run(rule(), {"--states", "fp32", "--target", "sm_90,sm_12"}, {{"JITSTEP_CACHE_DIR", cache}});
  EXPECT_EQ(failed.status, 2) << failed.output;
  EXPECT_TRUE(says(failed, "cannot compile for sm_12: it supports sm_")) << failed.output;
  EXPECT_FALSE(testing::fs::exists(cache) && !testing::files_below(cache).empty());
}

TEST_F(CheckTool, AcceptsACodecFileAndCodecOptions) {
  const Finished checked =
      run(rule(), {"--states",
                   kExamples + R"(linear8.cuh,{"codec": "int8", "block": 64},{"codec": ")" +
                       kExamples + R"(linear8.cuh", "block": 32})",
                   "--weights", "stochastic", "--target", "cpu", "--json"});
  EXPECT_EQ(checked.status, 0) << checked.output;
  const json kernels = json::parse(checked.output).at("kernels");
  EXPECT_EQ(kernels.at(0).at("name"), "mine_linear8_bfloat16_stochastic");
  EXPECT_NE(kernels.at(1).at("spec").get<std::string>().find("int8(block=64"), std::string::npos);
  EXPECT_NE(kernels.at(2).at("spec").get<std::string>().find("linear8(block=32"),
            std::string::npos);
}

// As in an optimizer, a codec for all slots does not apply to slots that name their own.
TEST_F(CheckTool, KeepsTheCodecOfSlotsThatNameTheirOwn) {
  const std::string file = rule_with("// torch: buffer", "// torch: buffer; codec: bf16");
  const Finished checked =
      run(file, {"--states", "int8", "--weights", "stochastic", "--target", "cpu"});
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_TRUE(says(checked, "m 2.000")) << checked.output;
  EXPECT_FALSE(says(checked, "m 1.016")) << checked.output;
}

TEST_F(CheckTool, ReportsThatGpusWereNotCheckedWithoutNvrtc) {
  const Args args = {"--states", "fp32", "--weights", "stochastic"};
  const Variables nowhere = {{"JITSTEP_NVRTC", folder_.path()}};
  const Finished checked = run(rule(), args, nowhere);
  EXPECT_EQ(checked.status, 3) << checked.output;
  for (const char* part : {"not checked: sm_80, sm_90: ", "no problem in "})
    EXPECT_TRUE(says(checked, part)) << checked.output;
  const json all = json::parse(run(rule(), with(args, {"--json"}), nowhere).output);
  EXPECT_EQ(all.at("unchecked").size(), 1u);
  EXPECT_EQ(all.at("status"), 3);
  EXPECT_EQ(all.at("kernels").at(0).at("same_bits"), true);
}

TEST_F(CheckTool, ReportsThatNothingWasCheckedWithoutAHostCompiler) {
  const Finished checked = run(rule(), kFew, kNoCompiler);
  EXPECT_EQ(checked.status, 3) << checked.output;
  EXPECT_TRUE(says(checked, "not checked: cpu: no host C++ compiler")) << checked.output;
  EXPECT_TRUE(says(checked, "lr      0.001    > 0")) << "the declarations need no compiler";
}

}  // namespace
}  // namespace jitstep::jit
