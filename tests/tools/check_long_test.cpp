// The rules and codecs of the tests pass `jitstep check`. Further cases of check_test.cpp.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/check_tool.h"

namespace jitstep::jit {
namespace {

class CheckToolOfExtensions : public ::testing::TestWithParam<std::string> {};

TEST_P(CheckToolOfExtensions, AcceptsThem) {
  const std::string file = JITSTEP_TEST_DATA "/templates/extensions/" + GetParam() + ".cuh";
  std::ifstream stream(file);
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  const bool rule = content.find("namespace jitstep::rules::") != content.npos;
  std::vector<std::string> args = {"check", file, "--target", "cpu"};
  if (rule) args.insert(args.end(), {"--states", "fp32", "--weights", "stochastic"});
  const Finished checked = testing::run_tool(args);
  EXPECT_EQ(checked.status, 0) << checked.output;
}

// All except weight formats, which users cannot load from files.
std::vector<std::string> extensions() {
  std::vector<std::string> names;
  for (const auto& file :
       testing::fs::directory_iterator(JITSTEP_TEST_DATA "/templates/extensions"))
    if (file.path().extension() == ".cuh" && file.path().stem() != "master32")
      names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, CheckToolOfExtensions, ::testing::ValuesIn(extensions()),
                         [](const auto& name) { return name.param; });

using CheckToolAtLength = testing::CheckTool;
using nlohmann::json;

TEST_F(CheckToolAtLength, WarnsAboutARuleThatClimbs) {
  const Finished checked = run(rule_with("e.p -= c.lr", "e.p += c.lr"), testing::kNative);
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_TRUE(says(checked, "warning: on a quadratic function")) << checked.output;
  EXPECT_TRUE(says(checked, "1 warning")) << checked.output;
}

TEST_F(CheckToolAtLength, AcceptsARuleThatDescends) {
  for (const char* right : {"e.p -= c.lr * e.m.next", "e.p -= c.lr * e.g"}) {
    const Finished checked = run(rule_with("e.p -= c.lr * e.m.next", right), testing::kNative);
    EXPECT_EQ(checked.status, 0) << checked.output;
    EXPECT_FALSE(says(checked, "warning")) << checked.output;
  }
}

TEST_F(CheckToolAtLength, AcceptsSquaresInANonNegativeSlot) {
  std::string squares = testing::kRule;
  squares.replace(squares.find("Signed m"), 8, "NonNegative m");
  squares.replace(squares.find("+ e.g;"), 6, "+ e.g * e.g;");
  testing::write_file(folder_ / "mine.cuh", squares);
  const Finished checked = run(folder_ / "mine.cuh", testing::kNative);
  EXPECT_EQ(checked.status, 0) << checked.output;
}

TEST_F(CheckToolAtLength, ReportsTheResourcesOfABlockCodec) {
  if (no_nvrtc()) GTEST_SKIP() << "no NVRTC";
  const Finished checked =
      run(rule(), {"--states", "int8", "--weights", "stochastic", "--target", "sm_90", "--json"});
  EXPECT_EQ(checked.status, 0) << checked.output;
  const json target = json::parse(checked.output).at("kernels").at(0).at("targets").at(1);
  EXPECT_GT(target.at("entries").at(0).at("registers"), 0);
}

// Only the kernel of tensors with five dimensions has the error.
TEST_F(CheckToolAtLength, NamesTheDimensionsOfTheKernelThatDoesNotCompile) {
  std::string rule = testing::kRule;
  rule.insert(rule.find("struct Slots"),
              "struct Flags {\n  bool deep = false;  // lifted: dims == 5 && lr > 100\n};\n");
  rule.insert(rule.find("struct Rule"), "template <Flags F>\n");
  rule.replace(rule.find("e.p -= c.lr"), 11, "if constexpr (F.deep) e.p -= e.q; e.p -= c.lr");
  testing::write_file(folder_ / "mine.cuh", rule);
  const Finished wrong = run(folder_ / "mine.cuh");
  EXPECT_EQ(wrong.status, 1) << wrong.output;
  EXPECT_TRUE(says(wrong, "mine.cuh:19: ")) << wrong.output;
  EXPECT_TRUE(says(wrong, "dims=5")) << wrong.output;
  rule.replace(rule.find("e.p -= e.q"), 10, "e.p -= e.g");
  testing::write_file(folder_ / "mine.cuh", rule);
  const Finished right = run(folder_ / "mine.cuh");
  EXPECT_EQ(right.status, 0) << right.output;
}

}  // namespace
}  // namespace jitstep::jit
