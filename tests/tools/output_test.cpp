// If the tool cannot write all of its output, it fails. Scripts that redirect the output check the exit status.
#include "jit/base/process.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using Args = std::vector<std::string>;

// Runs the tool with standard output on a full disk. Captures standard error.
Finished run_on_a_full_disk(const Args& args) {
  Args all = {"/bin/sh", "-c", "exec \"$0\" \"$@\" > /dev/full", JITSTEP_TOOL};
  all.insert(all.end(), args.begin(), args.end());
  return run_program(all, "", own_variables({}));
}

class ToolOutput : public ::testing::TestWithParam<Args> {};

TEST_P(ToolOutput, MustBeWrittenCompletely) {
  const Finished failed = run_on_a_full_disk(GetParam());
  EXPECT_EQ(failed.status, 1) << failed.output;
  EXPECT_NE(failed.output.find("cannot write to standard output"), std::string::npos)
      << failed.output;
}

INSTANTIATE_TEST_SUITE_P(Some, ToolOutput,
                         ::testing::Values(Args{"--version"}, Args{"list", "rules"},
                                           Args{"show", "adamw"}, Args{"show", "adamw", "--json"},
                                           Args{"memory", "--params", "7B"}, Args{"cache", "list"},
                                           Args{"inspect", "--target", "cpu", "--show", "source"}));

TEST(ToolOutputOfAMistake, KeepsItsExitStatus) {
  EXPECT_EQ(run_on_a_full_disk({"nothing"}).status, 2);
}

}  // namespace
}  // namespace jitstep::jit
