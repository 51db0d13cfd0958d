// The rules and codecs of the tests pass `jitstep check`.
#include <algorithm>

#include "jit/fixtures.h"
#include "tools/tool.h"

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

}  // namespace
}  // namespace jitstep::jit
