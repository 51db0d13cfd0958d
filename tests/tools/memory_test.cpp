// `jitstep memory`, as users run it.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "jit/fixtures.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;

Finished run(std::vector<std::string> args, const Variables& environment = {}) {
  args.insert(args.begin(), "memory");
  return testing::run_tool(args, environment);
}

std::string printed(const std::vector<std::string>& args) {
  const Finished result = run(args);
  EXPECT_EQ(result.status, 0) << result.output;
  return result.output;
}

json planned(std::vector<std::string> args) {
  args.push_back("--json");
  return json::parse(printed(args));
}

// Bytes by purpose.
std::map<std::string, std::int64_t> bytes_of(const json& plan) {
  std::map<std::string, std::int64_t> bytes;
  for (const json& part : plan.at("parts")) bytes[part.at("what")] = part.at("bytes");
  return bytes;
}

TEST(MemoryTool, GivesTheBytesOfSevenBillionParameters) {
  const json plan =
      planned({"--params", "7B", "--rule", "adamw", "--state", "int4", "--weights", "split16"});
  const std::map<std::string, std::int64_t> by_hand = {
      {"parameters", 14'000'000'000},  // bfloat16, because split16 supports it
      {"gradients", 14'000'000'000},  {"weight residual", 14'000'000'000},
      {"state m", 3'500'000'000},     {"scales of m", 218'750'000},  // 4 bytes per 128 elements
      {"state v", 3'500'000'000},     {"scales of v", 218'750'000}};
  EXPECT_EQ(bytes_of(plan), by_hand);
  EXPECT_EQ(plan.at("bytes"), 49'437'500'000);
  EXPECT_EQ(plan.at("bytes_per_parameter"), 7.0625);
  EXPECT_EQ(plan.at("torch_float32_adamw").at("bytes"), 112'000'000'000);
  EXPECT_EQ(plan.at("parameter_dtype"), "bfloat16");
  EXPECT_EQ(plan.at("gradient_dtype"), "bfloat16");
  EXPECT_EQ(plan.at("weights"), "split16");
}

TEST(MemoryTool, HasTheAliasPlan) {
  const auto with = [](const char* name) {
    return run_program({JITSTEP_TOOL, name, "--params", "7B"}, "", own_variables()).output;
  };
  EXPECT_EQ(with("plan"), with("memory"));
  EXPECT_NE(with("plan").find(" 16.0000  104.31\n"), std::string::npos);
}

TEST(MemoryTool, ComparesWithTorchsAdamW) {
  EXPECT_EQ(
      printed({"--params", "1.5B", "--rule", "lion", "--state", "int8", "--grad", "bfloat16"}),
      "lion, 1500000000 parameters: 43.8 % of the memory of torch's AdamW in float32\n\n"
      "               format       bytes/parameter    GiB\n"
      "parameters     float32               4.0000   5.59\n"
      "gradients      bfloat16              2.0000   2.79\n"
      "state m        int8                  1.0000   1.40\n"
      "scales of m    one for 256           0.0156   0.02\n"
      "all                                  7.0156   9.80\n"
      "torch's AdamW  float32              16.0000  22.35\n");
}

TEST(MemoryTool, TakesACodecsFileWithOptions) {
  const auto codec = [](const std::string& file) {
    return "v=" + json({{"codec", file}, {"block", 32}}).dump();
  };
  const json plan = planned({"--params", "32000", "--state", "int8", "--state",
                             codec(JITSTEP_SOURCE_DIR "/examples/linear8.cuh")});
  EXPECT_EQ(bytes_of(plan).at("state v"), 32000);
  EXPECT_EQ(bytes_of(plan).at("scales of v"), 4 * 32000 / 32);
  EXPECT_EQ(run({"--params", "1M", "--state", codec("no/such.cuh")}).status, 2);
}

TEST(MemoryTool, SharesTheStateAmongRanks) {
  constexpr std::int64_t kParameters = 7'000'000'000, kOthers = kParameters - kParameters / 64;
  const json adamw = planned({"--params", "7B", "--ranks", "64"}).at("ranks");
  EXPECT_EQ(adamw.at("ranks"), 64);
  EXPECT_EQ(adamw.at("parts_of_tensors"), true);
  EXPECT_LE(adamw.at("largest_share").get<double>(), 1.001);
  EXPECT_GE(adamw.at("state_bytes").get<double>(), 8.0 * kParameters / 64);
  EXPECT_LE(adamw.at("state_bytes").get<double>(), 1.001 * 8.0 * kParameters / 64);
  EXPECT_EQ(adamw.at("parameter_bytes_received"), 4 * kOthers);
  EXPECT_EQ(adamw.at("sum_bytes_received"), 0);
  EXPECT_EQ(adamw.at("transform_bytes"), 0);
  const json muon = planned({"--params", "7B", "--ranks", "64", "--rule", "muon"}).at("ranks");
  EXPECT_EQ(muon.at("transform_bytes"), 2 * 4 * (kOthers / 64));
  const json lamb = planned({"--params", "7B", "--ranks", "64", "--rule", "lamb"}).at("ranks");
  EXPECT_EQ(lamb.at("sum_bytes_received"), (kOthers + 4095) / 4096 * 2 * 8) << "two norms";
  const json whole = planned({"--params", "7B", "--ranks", "64", "--rule", "adafactor"});
  EXPECT_EQ(whole.at("ranks").at("parts_of_tensors"), false);
  EXPECT_NE(printed({"--params", "7B", "--ranks", "64"}).find("64 ranks with parts of tensors"),
            std::string::npos);
  EXPECT_EQ(run({"--params", "7B", "--ranks", "0"}).status, 2);
  EXPECT_FALSE(planned({"--params", "7B"}).contains("ranks"));
}

TEST(MemoryTool, CountsSmallModelsInMebibytes) {
  const std::string table = printed({"--params", "431080"});
  EXPECT_NE(table.find("  MiB\n"), std::string::npos) << table;
  EXPECT_NE(table.find(" 16.0000  6.58\n"), std::string::npos) << table;
}

// Every page and command must have the same figures: each rule with each codec, as in docs/reference/bytes.md.
TEST(MemoryTool, AgreesWithTheTableOfBytesForEveryRuleAndCodec) {
  std::ifstream file(JITSTEP_SOURCE_DIR "/docs/reference/bytes.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::istringstream lines(page.substr(page.find("| optimizer | launches |")));
  const auto cells = [](const std::string& line) {
    std::vector<std::string> fields;
    for (std::size_t at = 2, end; (end = line.find(" |", at)) != line.npos; at = end + 3)
      fields.push_back(line.substr(at, end - at));
    return fields;
  };
  std::string line;
  std::getline(lines, line);
  const auto head = cells(line);
  std::getline(lines, line);
  std::size_t next = 0, rules = 0;
  for (; std::getline(lines, line) && !line.empty(); ++rules) {
    const auto row = cells(line);
    ASSERT_EQ(row.size(), head.size()) << line;
    const std::size_t codec =
        2 + next++ % (head.size() - 2);  // each rule with one codec, by rotation
    const std::string rule = row[0].substr(1, row[0].find(']') - 1);
    const json plan = planned(
        {"--params", "1048576000", "--rule", rule, "--state", head[codec], "--param", "float32"});
    double state = plan.at("bytes_per_parameter").get<double>() - 8;
    EXPECT_NEAR(state, std::stod(row[codec]), 0.0006) << rule << " in " << head[codec];
  }
  EXPECT_GT(rules, 30u);
}

TEST(MemoryTool, AcceptsACodecPerSlot) {
  const json plan = planned({"--params", "256M", "--state", "int8", "--state", "m=bf16", "--state",
                             R"(exp_avg_sq={"codec": "int8", "block": 64})"});
  EXPECT_EQ(bytes_of(plan).at("state m"), 512'000'000);
  EXPECT_EQ(bytes_of(plan).count("scales of m"), 0u);
  EXPECT_EQ(bytes_of(plan).at("state v"), 256'000'000);
  EXPECT_EQ(bytes_of(plan).at("scales of v"), 16'000'000);
}

TEST(MemoryTool, AcceptsTheRulesOptions) {
  EXPECT_EQ(planned({"--params", "1K", "--rule", "sgd"}).at("bytes"), 8'000);
  EXPECT_EQ(planned({"--params", "1K", "--rule", "sgd", "--set", "momentum=0.9"}).at("bytes"),
            12'000);
  EXPECT_EQ(planned({"--params", "1K", "--set", "amsgrad=true"}).at("bytes"), 20'000);
  const json form = planned({"--params", "1M", "--rule", "lamb16", "--set", "form=original"});
  EXPECT_EQ(bytes_of(form).at("state m"), 1'000'000) << "a choice must work without quotes";
}

TEST(MemoryTool, CountsRowStateAndSharedState) {
  // Rows and columns of a 1024 x 1024 matrix, a float each, double-buffered.
  EXPECT_EQ(bytes_of(planned({"--params", "1048576", "--rule", "adafactor"})).at("auxiliary state"),
            16384);
  EXPECT_EQ(bytes_of(planned({"--params", "7B", "--rule", "prodigy"})).at("shared state"), 64);
}

TEST(MemoryTool, UsesADtypeThatTheWeightFormatSupports) {
  const std::map<std::string, double> by_hand = {
      {"native", 4 + 4 + 8},      {"stochastic", 2 + 2 + 8}, {"master", 2 + 2 + 8 + 4},
      {"split16", 2 + 2 + 8 + 2}, {"split8", 2 + 2 + 8 + 1}, {"kahan", 2 + 2 + 8 + 2}};
  for (const auto& [weights, bytes] : by_hand)
    EXPECT_EQ(planned({"--params", "7B", "--weights", weights}).at("bytes_per_parameter"), bytes)
        << weights;
  const json half = planned({"--params", "7B", "--weights", "master", "--param", "float16"});
  EXPECT_EQ(half.at("parameter_dtype"), "float16");
  EXPECT_TRUE(half.at("notes").empty());
}

// signum.cuh with a default weight format.
TEST(MemoryTool, UsesADtypeThatTheRulesWeightFormatSupports) {
  testing::TemporaryFolder folder;
  testing::fs::copy(JITSTEP_SOURCE_DIR "/templates", folder / "templates",
                    testing::fs::copy_options::recursive);
  std::ostringstream signum;
  signum << std::ifstream(JITSTEP_SOURCE_DIR "/examples/signum.cuh").rdbuf();
  std::string rule = signum.str();
  rule.insert(rule.find("#pragma once"), "// default weights: kahan\n");
  testing::write_file(folder / "templates/rules/signum.cuh", rule);
  const auto with = [&](const std::string& weights) {
    std::vector<std::string> args = {"--params", "7B", "--rule", "signum", "--json"};
    if (!weights.empty()) args.insert(args.end(), {"--weights", weights});
    return json::parse(run(args, {{"JITSTEP_TEMPLATES", folder / "templates"}}).output);
  };
  EXPECT_EQ(with("").at("weights"), "kahan");
  EXPECT_EQ(with("").at("bytes_per_parameter"), 2 + 2 + 2 + 4);
  EXPECT_EQ(with("native").at("parameter_dtype"), "float32");
}

TEST(MemoryTool, ReportsWhatAnOptimizerWouldDoInstead) {
  const json wide = planned({"--params", "7B", "--weights", "split16", "--param", "float32"});
  EXPECT_EQ(wide.at("weights"), "native");
  EXPECT_EQ(wide.at("notes").at(0),
            "the weight format split16 does not support float32, so parameters stay native");
  const json small = planned({"--params", "4095", "--state", "int8"});
  EXPECT_EQ(bytes_of(small).at("state m"), 4 * 4095) << "no tensor is quantized";
  EXPECT_NE(printed({"--params", "1M", "--rule", "muon"}).find("\nnote: a step of muon runs"),
            std::string::npos);
}

TEST(MemoryTool, RejectsInvalidNumbersOfParameters) {
  for (const char* count : {"7Q", "-5", "0", "1.5", "1e3", "nan", "inf", "300T", "7BB", "B"}) {
    const Finished failed = run({std::string("--params=") + count});
    EXPECT_EQ(failed.status, 2) << count;
    EXPECT_NE(
        failed.output.find(std::string("--params: \"") + count +
                           "\" is not a number of parameters. Give a whole number from 1 to 2^48"),
        std::string::npos)
        << failed.output;
  }
  EXPECT_EQ(planned({"--params", "1.1b"}).at("parameters"), 1'100'000'000);
  EXPECT_EQ(planned({"--params", "281474976710656"}).at("bytes"), 16 * 281'474'976'710'656);
}

TEST(MemoryTool, ReportsMistakesInOneSentence) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--rule", "adamx"},
       "there is no rule \"adamx\" (did you mean \"adam\"?). Known rules: adabelief, "},
      {{"--state", "int7"}, "there is no codec \"int7\" (did you mean \"int4\"?). "},
      {{"--state", "q=int8"}, "adamw has no slot \"q\". Slots: m, v, vmax"},
      {{"--weights", "splat"}, "there is no weight format \"splat\". "},
      {{"--grad", "int8"}, "no dtype \"int8\""},
      {{"--set", "lr"}, "--set \"lr\" has no value"},
      {{"--set", "lr=fast"}, "adamw: the option \"lr\" expects a number, not \"fast\""},
      {{"--set", "lr=-1"}, "lr"},
      {{"--set", "lr=1", "--set", "lr=2"}, "--set is given twice for lr"},
      {{"--state", "int8", "--state", "int4"}, "--state is given twice for all slots"},
      {{"--state", "m=int8", "--state", "m=int4"}, "--state is given twice for m"}};
  for (auto [args, sentence] : wrong) {
    args.insert(args.begin(), {"--params", "7B"});
    const Finished failed = run(args);
    EXPECT_EQ(failed.status, 2) << args.back();
    EXPECT_EQ(failed.output.find("jitstep: "), 0u) << failed.output;
    EXPECT_NE(failed.output.find(sentence), std::string::npos) << failed.output;
    EXPECT_EQ(std::count(failed.output.begin(), failed.output.end(), '\n'), 1);
  }
  EXPECT_EQ(run({}).status, 2) << "the number of parameters is missing";
}

}  // namespace
}  // namespace jitstep::jit
