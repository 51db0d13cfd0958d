// `jitstep catalogue`, and the page that it wrote.
#include <nlohmann/json.hpp>

#include "jit/fixtures.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using testing::fs::path;

const path kTemplates = JITSTEP_SOURCE_DIR "/templates";

std::string text_of(const path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string printed(const Variables& environment = {}) {
  const Finished run = testing::run_tool({"catalogue"}, environment);
  EXPECT_EQ(run.status, 0) << run.output;
  return run.output;
}

// Whether a line of the page has these cells, in this order.
bool has_row(const std::string& page, const std::vector<std::string>& cells) {
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::size_t at = 0;
    for (const std::string& cell : cells) {
      at = line.find("| " + cell + " |", at);
      if (at == line.npos) break;
      ++at;
    }
    if (at != line.npos) return true;
  }
  return false;
}

TEST(Catalogue, ThePageInDocsIsWhatTheToolPrints) {
  EXPECT_EQ(printed(), text_of(JITSTEP_SOURCE_DIR "/docs/catalogue.md"))
      << "write it anew: build/tools/jitstep catalogue > docs/catalogue.md";
}

TEST(Catalogue, HasEveryFileOfTheFolders) {
  const std::string page = printed();
  int files = 0;
  for (const char* folder : {"rules", "codecs", "weights"})
    for (const auto& file : testing::fs::directory_iterator(kTemplates / folder)) {
      const std::string name = file.path().stem();
      EXPECT_TRUE(has_row(page, {"`" + name + "`"}) ||
                  has_row(page, {"[" + name + "](#" + name + ")"}))
          << name;
      ++files;
    }
  EXPECT_GE(files, 40);
}

TEST(Catalogue, TellsWhatEveryRefusalOfARuleSays) {
  const std::string page = printed(), mark = "\n// refuse: ";
  int refusals = 0;
  for (const auto& file : testing::fs::directory_iterator(kTemplates / "rules")) {
    const std::string rule = text_of(file.path());
    for (std::size_t at = rule.find(mark); at != rule.npos; at = rule.find(mark, at + 1)) {
      const std::size_t sentence = rule.find(", ", at) + 2;
      const std::string because = rule.substr(sentence, rule.find('\n', sentence) - sentence);
      EXPECT_TRUE(has_row(page, {because})) << file.path();
      ++refusals;
    }
  }
  EXPECT_GE(refusals, 8);
}

TEST(Catalogue, TellsInWhatStateARuleIsKeptUnlessAnotherIsChosen) {
  const std::string page = printed();
  const auto section = [&](const std::string& rule) {
    const std::size_t begin = page.find("\n### " + rule + "\n");
    return page.substr(begin, page.find("\n### ", begin + 1) - begin);
  };
  EXPECT_NE(
      section("lamb16").find(
          "State: `fp8_norm(least_norm=eps)` if `form == original`, else `int8_softsign`, unless "
          "another is chosen."),
      page.npos);
  EXPECT_EQ(section("lamb").find("State: "), page.npos) << "it leaves it to the library";
}

// Of which the default of the library follows where no condition holds.
TEST(Catalogue, EndsARulesStatesWithTheLibrarysWhereNoneOfItsOwnHolds) {
  testing::TemporaryFolder folder;
  testing::fs::copy(kTemplates, folder / "templates", testing::fs::copy_options::recursive);
  std::string rule = text_of(kTemplates / "rules/lamb16.cuh");
  const std::string last = "// default state: int8_softsign\n";
  rule.erase(rule.find(last), last.size());
  testing::write_file(folder / "templates/rules/lamb16.cuh", rule);
  EXPECT_NE(
      printed({{"JITSTEP_TEMPLATES", folder / "templates"}})
          .find("State: `fp8_norm(least_norm=eps)` if `form == original`, else `fp32`, unless"),
      std::string::npos);
}

// By hand: momentum in int8 is a byte and 4 of a block of 256; AMSGrad's is a third slot.
TEST(Catalogue, CountsBytesAndLaunches) {
  const std::string page = printed();
  EXPECT_TRUE(has_row(page, {"[lion](#lion)", "1", "4.000", "2.000", "0.531", "1.016"}));
  EXPECT_TRUE(has_row(page, {"`amsgrad=true`", "1", "12.000", "6.000", "1.594", "3.047"}));
  EXPECT_TRUE(has_row(page, {"[muon](#muon)", "2", "4.000"})) << "a host stage is a launch";
  EXPECT_TRUE(has_row(page, {"[lamb](#lamb)", "3", "8.000"})) << "a pass of sums is two";
}

// A rule of a folder of one's own, whose figures are those of `jitstep check`.
TEST(Catalogue, SaysOfAFileWhatCheckSays) {
  const std::string example = JITSTEP_SOURCE_DIR "/examples/signum.cuh";
  testing::TemporaryFolder folder;
  testing::fs::copy(kTemplates, folder / "templates", testing::fs::copy_options::recursive);
  testing::fs::copy(example, folder / "templates/rules/signum.cuh");
  const std::string page = printed({{"JITSTEP_TEMPLATES", folder / "templates"}});
  const Finished check = testing::run_tool({"check", example, "--codec", "fp32", "--weights",
                                            "stochastic", "--target", "cpu", "--json"});
  const auto kernel = nlohmann::json::parse(check.output).at("kernels").at(0);
  const double bytes = kernel.at("state_bytes_per_parameter").at("all");
  EXPECT_EQ(bytes, 4);
  EXPECT_TRUE(has_row(page, {"[signum](#signum)", "`Signum`",
                             std::to_string(kernel.at("launches").get<int>()), "4.000"}));
  EXPECT_TRUE(has_row(page, {"`momentum_buffer`"}));
}

}  // namespace
}  // namespace jitstep::jit
