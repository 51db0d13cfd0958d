// `jitstep tune` for a GPU, as users run it, with the PTX driver as the system's driver.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "jit/fixtures.h"
#include "jit/tuning/tuning_files.h"
#include "tools/tool.h"

namespace jitstep::tests {
namespace {

using nlohmann::json;

class TuneToolOnAGpu : public testing::Test {
 protected:
  jit::Finished run(const std::vector<std::string>& words) const {
    return jit::testing::run_tool(
        words, {{"JITSTEP_CACHE_DIR", folder / "cache"}, {"LD_LIBRARY_PATH", JITSTEP_PTX_DRIVER}});
  }

  jit::testing::TemporaryFolder folder;
};

TEST_F(TuneToolOnAGpu, TunesOnTheDeviceOfTheArchitectureAndShowsTheRecord) {
  const jit::Finished result = run({"tune", "--target", "sm_85", "--sizes", "1k", "--rule", "sgd",
                                    "--strategy", "random", "--trials", "1", "--budget", "10m"});
  ASSERT_EQ(result.status, 0) << result.output;
  const auto records = jit::read_records(folder / "cache/tuning.jsonl").records;
  ASSERT_EQ(records.size(), 1u) << result.output;
  EXPECT_FALSE(records[0].complete) << "--trials leaves others out";
  EXPECT_EQ(records[0].hardware.target, jit::Target::cuda(85));
  EXPECT_EQ(records[0].hardware.units, 2) << "the multiprocessors that the driver reports";
  ASSERT_EQ(records[0].trials.size(), 1u);
  EXPECT_EQ(records[0].trials[0].status, jit::TrialStatus::timed) << records[0].trials[0].detail;
  const jit::Finished shown =
      run({"inspect", "--rule", "sgd", "--target", "sm_85", "--show", "records", "--json"});
  EXPECT_EQ(json::parse(shown.output).at("records").size(), 1u) << shown.output;
}

TEST_F(TuneToolOnAGpu, AnotherArchitectureIsAnErrorThatListsTheGpus) {
  const jit::Finished result = run({"tune", "--target", "sm_90", "--sizes", "1k"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.output,
            "jitstep: no GPU here is sm_90: GPU 0 is sm_99, GPU 1 is sm_85, GPU 2 is sm_129. "
            "--dry-run orders the candidates for sm_90 without a GPU.\n");
  EXPECT_EQ(run({"tune", "--target", "sm_99", "--device", "1", "--sizes", "1k"}).status, 1);
}

}  // namespace
}  // namespace jitstep::tests
