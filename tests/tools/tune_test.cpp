// `jitstep tune` and `jitstep bench`, as users run them.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "jit/cache/cache_fixtures.h"
#include "jit/tuning/tuning_files.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using testing::TemporaryFolder;

class TuneTool : public ::testing::Test {
 protected:
  Finished run(const std::vector<std::string>& args) const {
    return testing::run_tool(args, {{"JITSTEP_CACHE_DIR", folder / "cache"}});
  }
  std::vector<std::string> tune(std::vector<std::string> more) const {
    std::vector<std::string> args = {"tune", "--sizes", "4k", "--budget", "1s", "--threads", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  RecordFile records() const { return read_records(folder / "cache/tuning.jsonl"); }

  TemporaryFolder folder;
};

TEST_F(TuneTool, StoresARecordWritesAReportAndContinuesTheRecord) {
  const Finished first = run(tune({"--trials", "2", "--report", folder / "out.json"}));
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_NE(first.output.find("adamw_fp32_float32, one tensor of 4096 elements"), std::string::npos)
      << first.output;
  ASSERT_EQ(records().records.size(), 1u);
  EXPECT_FALSE(records().records[0].complete) << "there are other candidates";
  const json report = json::parse(testing::content_of(folder / "out.json"));
  EXPECT_EQ(report.at("schema"), 1);
  const json& reported = report.at("workloads").at(0);
  EXPECT_EQ(reported.at("bytes"), 28 * 4096);
  EXPECT_EQ(reported.at("record"), json::parse(to_json(records().records[0])));
  const Finished second = run(tune({"--json", "--trials", "3"}));
  const json result = json::parse(second.output).at("workloads").at(0);
  EXPECT_EQ(result.at("known_before"), false);
  const json &before = reported.at("record").at("trials"),
             &after = result.at("record").at("trials");
  ASSERT_GE(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i], before[i]);
}

TEST_F(TuneTool, ADryRunNamesCandidatesAndMeasuresNothing) {
  const Finished result = run({"tune", "--sizes", "1M", "--dry-run", "--json"});
  ASSERT_EQ(result.status, 0) << result.output;
  const json workloads = json::parse(result.output).at("workloads");
  EXPECT_GT(workloads.at(0).at("candidates").size(), 5u);
  EXPECT_TRUE(records().records.empty());
}

// The tool compiles each candidate for a GPU to rank it.
TEST_F(TuneTool, ADryRunForAGpuStaysWithinItsBudget) {
  if (Settings::from_environment().nvrtc.empty()) GTEST_SKIP() << "no NVRTC";
  const Finished result = run({"tune", "--sizes", "1M", "--dry-run", "--target", "sm_90",
                               "--budget", "0.1s", "--rule", "sgd"});
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find(" for sm_90 within the budget"), std::string::npos);
  EXPECT_NE(result.output.find(" more were not compiled within the budget"), std::string::npos)
      << result.output;
}

TEST_F(TuneTool, AFileWithOtherContentIsNotChanged) {
  testing::write_file(folder / "notes.txt", "my notes\n");
  const Finished result = run(tune({"--records", folder / "notes.txt"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("notes.txt: it has other content"), std::string::npos)
      << result.output;
  EXPECT_EQ(testing::content_of(folder / "notes.txt"), "my notes\n");
}

TEST_F(TuneTool, EveryMistakeIsReportedInOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--budget", "soon"}, "--budget: \"soon\" is not a time"},
      {{"--target", "sm_10"}, ". --dry-run orders the candidates for sm_10 without a GPU."},
      {{"--target", "emulated"}, "--target emulated cannot be tuned"},
      {{"--device", "0"}, "--device is the number of a GPU"},
      {{"--rule", "adamx"}, "adamx"},
      {{"--scratch", "1", "--sizes", "16M"}, "of scratch memory, more than the limit of 1 MiB"},
      {{"--scratch", "9223372036854775807"}, "is not a whole number from 1 to"},
      {{"--dry-run", "--target", "emulated"}, "--target emulated cannot be tuned"},
      {{"--records", "/tmp/own.jsonl", "--sizes", "4k"}, "Use a folder inside of it"},
      {{"--weights", ""}, "the value is empty"},
      {{"--model", folder / "none.json"}, "cannot read"},
      {{"--model", folder.path()}, "cannot read"}};
  for (const auto& [args, part] : wrong) {
    std::vector<std::string> all = {"tune"};
    all.insert(all.end(), args.begin(), args.end());
    const Finished result = run(all);
    const bool usage = part.find("--dry-run") == part.npos && part.find("scratch") == part.npos &&
                       part.find("cannot read") == part.npos && part.find("folder") == part.npos;
    EXPECT_EQ(result.status, usage ? 2 : 1) << part;
    EXPECT_NE(result.output.find(part), std::string::npos) << result.output;
    EXPECT_EQ(result.output.find(".. "), std::string::npos) << result.output;
  }
  EXPECT_EQ(run({"tune", "--strategy", "luck"}).status, 2);
  const Finished unused = run({"tune", "--dry-run", "--report", "trials.json"});
  EXPECT_EQ(unused.status, 2);
  EXPECT_NE(unused.output.find("--report"), std::string::npos) << unused.output;
  EXPECT_EQ(run({"tune", "--sizes", "4k", "--model", "x.json"}).status, 2);
  EXPECT_EQ(run({"tune", "--sizes", "none"}).status, 2);
  for (const char* command : {"tune", "bench"})
    EXPECT_EQ(run({command, "--sizes", "4k", "--threads", "100000"}).status, 2);
}

// A record whose winner is no default configuration.
TEST_F(TuneTool, ItsResultIsShownCompiledAndCounted) {
  ASSERT_EQ(run(tune({"--trials", "1"})).status, 0);
  const std::string file = folder / "cache/tuning.jsonl";
  json record = json::parse(std::ifstream(file));
  record["outcome"] = "won";
  record["configuration"]["leaves_per_item"] = 64;
  testing::write_file(file, record.dump() + "\n");
  ASSERT_EQ(records().records.size(), 1u);

  const json shown =
      json::parse(run({"inspect", "--target", "cpu", "--show", "records", "--json"}).output);
  ASSERT_EQ(shown.at("records").size(), 1u) << shown;
  EXPECT_EQ(shown.at("records")[0].at("configuration").at("leaves_per_item"), 64);
  const Finished warm = run({"cache", "warm", R"({"rule": "adamw"})"});
  EXPECT_NE(warm.output.find("leaves_per_item 64 (tuned)"), std::string::npos) << warm.output;
  std::ofstream(file, std::ios::app) << "no record\n";
  const std::string doctor = run({"doctor"}).output;
  EXPECT_NE(doctor.find(file + ", 1 record, "), std::string::npos) << doctor;
  EXPECT_NE(doctor.find(", 1 skipped. The first: " + file + ":2: "), std::string::npos) << doctor;
}

std::size_t trials_in(const RecordFile& file) {
  std::size_t trials = 0;
  for (const TuningRecord& record : file.records) trials += record.trials.size();
  return trials;
}

// Stops a tuner some time after it has written more trials than before, and returns its exit status.
int stopped(const std::string& cache, int signal, std::size_t trials, int milliseconds) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("JITSTEP_CACHE_DIR", cache.c_str(), 1);
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
    ::execl(JITSTEP_TOOL, JITSTEP_TOOL, "tune", "--sizes", "4k,64k", "--budget", "1h", "--strategy",
            "exhaustive", "--threads", "1", static_cast<char*>(nullptr));
    ::_exit(99);
  }
  constexpr int kPatience = 2000;  // waits of a twentieth of a second
  for (int i = 0; i < kPatience && trials_in(read_records(cache + "/tuning.jsonl")) <= trials; ++i)
    ::usleep(50'000);
  ::usleep(static_cast<useconds_t>(milliseconds) * 1000);
  ::kill(pid, signal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(TuneTool, AKillAtAnyTimeLeavesRecordsAndCacheValid) {
  std::size_t trials = 0;
  for (int turn = 0; turn < 5; ++turn) {
    EXPECT_EQ(stopped(folder / "cache", SIGKILL, trials, 170 * turn), -SIGKILL);
    EXPECT_TRUE(records().problems.empty());
    EXPECT_GT(trials_in(records()), trials) << "the tuner must keep all trials and continue";
    trials = trials_in(records());
  }
  EXPECT_EQ(run({"cache", "verify"}).status, 0);
}

TEST_F(TuneTool, CtrlCStopsARunAndTheNextOneContinues) {
  EXPECT_EQ(stopped(folder / "cache", SIGINT, 0, 0), 130);
  const auto before = records().records;
  ASSERT_EQ(before.size(), 1u);
  EXPECT_FALSE(before[0].complete);
  const Finished next = run({"tune", "--sizes", "4k", "--threads", "1", "--trials",
                             std::to_string(before[0].trials.size()), "--strategy", "exhaustive"});
  EXPECT_EQ(next.status, 0) << next.output;
  const auto after = records().records;
  ASSERT_EQ(after.size(), 1u);
  EXPECT_FALSE(after[0].complete) << "--trials leaves others out";
  ASSERT_GE(after[0].trials.size(), before[0].trials.size());
  for (std::size_t i = 0; i < before[0].trials.size(); ++i)
    EXPECT_EQ(after[0].trials[i], before[0].trials[i]);
}

// The compiler reports its identity, but compiles for ever.
TEST_F(TuneTool, ASecondCtrlCEndsTheProcess) {
  testing::write_file(folder / "c++",
                      "#!/bin/sh\ncase \"$*\" in *' -E '*) exec c++ \"$@\";; esac\n"
                      "touch \"" +
                          (folder / "started") + "\"\nexec sleep 60\n");
  ::chmod((folder / "c++").c_str(), 0700);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("JITSTEP_CACHE_DIR", (folder / "cache").c_str(), 1);
    ::setenv("JITSTEP_CXX", (folder / "c++").c_str(), 1);
    ::close(STDOUT_FILENO);
    ::close(STDERR_FILENO);
    ::execl(JITSTEP_TOOL, JITSTEP_TOOL, "tune", "--sizes", "4k", "--threads", "1",
            static_cast<char*>(nullptr));
    ::_exit(99);
  }
  for (int i = 0; i < 1000 && !testing::fs::exists(folder / "started"); ++i) ::usleep(50'000);
  ASSERT_TRUE(testing::fs::exists(folder / "started"));
  ::kill(pid, SIGINT);
  ::usleep(300'000);
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, WNOHANG), 0) << "the first one ends the run after this trial";
  ::kill(pid, SIGINT);
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

TEST_F(TuneTool, BenchTimesStepsAndTheBandwidthBaseline) {
  const Finished result = run({"bench", "--states", "fp32,int8", "--sizes", "16k,8x2k", "--rounds",
                               "3", "--threads", "1", "--json"});
  ASSERT_EQ(result.status, 0) << result.output;
  const json rows = json::parse(result.output).at("results");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].at("bytes"), 28 * 16384);
  EXPECT_EQ(rows[1].at("tensors"), 8);
  EXPECT_EQ(rows[3].at("kernel"), "adamw_fp32_float32") << "small tensors have float state";
  for (const json& row : rows) {
    EXPECT_GT(row.at("parameters_per_second"), 0);
    EXPECT_GT(row.at("of_bound"), 0);
    EXPECT_EQ(row.at("match"), "default");
  }
  const Finished table = run({"bench", "--sizes", "16k", "--rounds", "1", "--threads", "1",
                              "--plot", folder / "out.json"});
  EXPECT_NE(table.output.find("of bound"), std::string::npos) << table.output;
  const json report = json::parse(testing::content_of(folder / "out.json"));
  EXPECT_EQ(report.at("schema"), 1);
  EXPECT_EQ(report.at("results").at(0).at("elements"), 16384);
}

TEST_F(TuneTool, BenchReportsAWorkloadThatDoesNotFitAndMeasuresTheOthers) {
  const Finished result = run(
      {"bench", "--sizes", "4k,1M", "--rounds", "1", "--threads", "1", "--scratch", "1", "--json"});
  EXPECT_EQ(result.status, 1) << result.output;
  const json rows = json::parse(result.output).at("results");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_GT(rows[0].at("seconds"), 0);
  EXPECT_NE(rows[1].at("problem").get<std::string>().find("scratch"), std::string::npos);
}

TEST_F(TuneTool, AReportThatCannotBeWrittenIsAnError) {
  const Finished full =
      run({"bench", "--sizes", "4k", "--rounds", "1", "--threads", "1", "--plot", "/dev/full"});
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.output.find("cannot write /dev/full"), std::string::npos) << full.output;
  const Finished directory = run(tune({"--report", folder.path()}));
  EXPECT_EQ(directory.status, 1);
  EXPECT_TRUE(records().records.empty()) << "the check must come before the measurements";
}

// A report replaces the file, which takes a folder that can be written to. Root can write to each folder, so that
// another user runs the tool.
TEST_F(TuneTool, AWritableReportInAReadOnlyFolderIsAnErrorBeforeTheMeasurements) {
  const std::string reports = folder / "reports", report = reports + "/out.json";
  testing::write_file(report, "mine\n");
  ::chmod(reports.c_str(), 0500);
  std::vector<std::string> program = {JITSTEP_TOOL};
  if (::geteuid() == 0) {
    program = {"/usr/bin/env",  "setpriv",        "--reuid=12345",
               "--regid=12345", "--clear-groups", JITSTEP_TOOL};
    for (const std::string& path : {folder.path(), reports, report})
      ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  }
  const auto run_it = [&](const std::vector<std::string>& args) {
    std::vector<std::string> all = program;
    all.insert(all.end(), args.begin(), args.end());
    return run_program(all, "", own_variables({{"JITSTEP_CACHE_DIR", folder / "cache"}}));
  };
  if (run_it({"--version"}).status != 0) GTEST_SKIP() << "another user cannot start the tool";
  const Finished result = run_it(tune({"--report", report}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("cannot write " + report + ". Name a file in an existing folder"),
            std::string::npos)
      << result.output;
  EXPECT_FALSE(testing::fs::exists(folder / "cache/tuning.jsonl"));
  ::chmod(reports.c_str(), 0700);
}

TEST_F(TuneTool, AReportMayGoToAPipe) {
  const Finished result = run_program(
      {"/bin/sh", "-c",
       JITSTEP_TOOL " bench --sizes 4k --rounds 1 --threads 1 --plot /dev/stdout | cat"},
      "", own_variables({{"JITSTEP_CACHE_DIR", folder / "cache"}}));
  EXPECT_NE(result.output.find("\"results\": ["), std::string::npos) << result.output;
}

TEST_F(TuneTool, ARelativeReportNeedsAWorkingDirectory) {
  const std::string gone = folder / "gone";
  const Finished result =
      run_program({"/bin/sh", "-c",
                   "mkdir " + gone + " && cd " + gone + " && rmdir " + gone +
                       " && exec " JITSTEP_TOOL " bench --sizes 4k --plot out.json"},
                  "", own_variables({{"JITSTEP_CACHE_DIR", folder / "cache"}}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("cannot write out.json: the working directory is missing"),
            std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace jitstep::jit
