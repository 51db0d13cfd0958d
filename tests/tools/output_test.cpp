// What the tool prints arrives whole, or the tool fails: a script that redirects it goes by the status.
#include "jit/base/process.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using Words = std::vector<std::string>;

// The tool with its output where a full disk is; what it says besides.
Finished run_on_a_full_disk(const Words& words) {
  Words all = {"/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/full", JITSTEP_TOOL};
  all.insert(all.end(), words.begin(), words.end());
  return run_program(all, "", own_variables({}));
}

class ToolOutput : public ::testing::TestWithParam<Words> {};

TEST_P(ToolOutput, ThatCannotBeWrittenFailsTheTool) {
  const Finished failed = run_on_a_full_disk(GetParam());
  EXPECT_EQ(failed.status, 1) << failed.output;
  EXPECT_NE(failed.output.find("cannot write to standard output"), std::string::npos)
      << failed.output;
}

INSTANTIATE_TEST_SUITE_P(
    Some, ToolOutput,
    ::testing::Values(Words{"--version"}, Words{"list", "rules"}, Words{"show", "adamw"},
                      Words{"show", "adamw", "--json"}, Words{"memory", "--params", "7B"},
                      Words{"cache", "list"},
                      Words{"inspect", "--target", "cpu", "--show", "source"}));

TEST(ToolOutputOfAMistake, KeepsItsStatus) { EXPECT_EQ(run_on_a_full_disk({"nothing"}).status, 2); }

}  // namespace
}  // namespace jitstep::jit
