#include "jit/tuning/tuning_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "jit/base/file_handle.h"
#include "jit/cache/cache_fixtures.h"
#include "jit/tuning/tuning_samples.h"

namespace jitstep::jit {
namespace {

using testing::abacus;
using testing::TemporaryFolder;
using testing::won_record;

TuningRecord of_size(std::int64_t elements) { return won_record({elements, 1}); }

std::set<std::int64_t> sizes_in(const std::string& path) {
  std::set<std::int64_t> sizes;
  for (const TuningRecord& record : read_records(path).records) sizes.insert(record.size.elements);
  return sizes;
}

class TuningFiles : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  const std::string path = folder / "cache/tuning.jsonl";
};

TEST_F(TuningFiles, AMissingFileHoldsNoRecords) {
  EXPECT_TRUE(read_records(path).records.empty());
  EXPECT_TRUE(read_records(path).problems.empty());
}

TEST_F(TuningFiles, RecordsAreAddedAndReplaced) {
  EXPECT_EQ(add_record(path, of_size(1)), std::nullopt);
  EXPECT_EQ(add_record(path, of_size(2)), std::nullopt);
  TuningRecord again = of_size(1);
  again.gain = 2;
  EXPECT_EQ(add_record(path, again), std::nullopt);
  const auto records = read_records(path).records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0], of_size(2));
  EXPECT_EQ(records[1], again);
}

TEST_F(TuningFiles, RecordsOfAnotherEnvironmentStay) {
  TuningRecord theirs = won_record({1, 1}, abacus(96));
  TuningRecord older = of_size(1);
  older.versions.templates = "older";
  for (const TuningRecord& record : {theirs, older, of_size(1)}) add_record(path, record);
  EXPECT_EQ(read_records(path).records.size(), 3u);
}

TEST_F(TuningFiles, LinesOfNewerSchemasAndDamagedOnesAreReportedAndStay) {
  const std::string newer = R"({"schema": 7, "of": "tomorrow"})", damaged = R"({"schema": 1, "ker)";
  testing::write_file(
      path, to_json(of_size(1)) + "\n\n" + damaged + "\n" + newer + "\n" + to_json(of_size(2)));
  ::chmod((folder / "cache").c_str(), 0700);
  const RecordFile file = read_records(path);
  EXPECT_EQ(file.records.size(), 2u);
  ASSERT_EQ(file.problems.size(), 2u);
  EXPECT_EQ(file.problems[0], path + ":3: the line is not valid JSON, or truncated");
  EXPECT_TRUE(file.problems[1].starts_with(path + ":4: schema 7 is newer")) << file.problems[1];
  EXPECT_EQ(add_record(path, of_size(3)), std::nullopt);
  const RecordFile after = read_records(path);
  EXPECT_EQ(after.records.size(), 3u);
  EXPECT_EQ(after.newer, std::vector<std::string>{newer});
  EXPECT_EQ(after.damaged, std::vector<std::string>{damaged});
  EXPECT_EQ(after.problems.size(), 2u);
}

TEST_F(TuningFiles, TwoConcurrentWritersLoseNoRecords) {
  constexpr int kEach = 40;
  std::vector<pid_t> children;
  for (int child = 0; child < 2; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      bool good = true;
      for (int i = 0; i < kEach; ++i) good &= !add_record(path, of_size(1 + 2 * i + child));
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(sizes_in(path).size(), 2u * kEach);
}

TEST_F(TuningFiles, AWriterKilledAtAnyPointLeavesACompleteFile) {
  std::size_t known = 0;
  // With sanitizers, a writer may need longer for its first record than all attempts that suffice without.
  for (int attempt = 0; attempt < 30 || (known == 0 && attempt < 300); ++attempt) {
    const pid_t pid = ::fork();
    if (pid == 0)
      for (std::int64_t i = 1;; ++i) add_record(path, of_size(i % 50 + 1));
    ::usleep(static_cast<useconds_t>(500 + 700 * attempt));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const RecordFile file = read_records(path);
    EXPECT_TRUE(file.problems.empty());
    EXPECT_GE(file.records.size(), known);
    known = file.records.size();
  }
  EXPECT_GT(known, 0u);
  EXPECT_EQ(add_record(path, of_size(1000)), std::nullopt) << "nobody holds the lock";
  for (const std::string& file : testing::files_below(folder / "cache", ".tmp"))
    testing::age(file, 2);
  sweep_left_overs(folder / "cache");
  EXPECT_TRUE(testing::files_below(folder / "cache", ".tmp").empty()) << "of killed writers";
}

TEST_F(TuningFiles, AWriterWaitsForALockButNotForEver) {
  ASSERT_EQ(add_record(path, of_size(1)), std::nullopt);
  FileHandle lock(::open((path + ".lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  const std::string problem = add_record(path, of_size(2)).value_or("");
  EXPECT_TRUE(problem.starts_with("cannot lock " + path + ".lock: another process ")) << problem;
  EXPECT_EQ(sizes_in(path), std::set<std::int64_t>{1});
  std::thread holder([&] {
    ::usleep(50'000);
    lock.reset();
  });
  EXPECT_EQ(add_record(path, of_size(2)), std::nullopt);
  holder.join();
  EXPECT_EQ(sizes_in(path).size(), 2u);
}

TEST_F(TuningFiles, RejectAFolderThatOthersMayWriteTo) {
  testing::fs::create_directories(folder / "cache");
  ::chmod((folder / "cache").c_str(), 0777);
  const auto problem = add_record(path, of_size(1));
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find("chmod go-w"), std::string::npos) << *problem;
}

TEST_F(TuningFiles, AFileThatCannotBeReadIsNotOverwritten) {
  testing::write_file(path, to_json(of_size(1)) + "\n");
  ::chmod((folder / "cache").c_str(), 0700);
  ::chmod(path.c_str(), 0666);
  EXPECT_TRUE(read_records(path).records.empty());
  EXPECT_TRUE(add_record(path, of_size(2)));
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(sizes_in(path), std::set<std::int64_t>{1});
}

TEST_F(TuningFiles, AnUnreadableFileIsReportedWithTheReason) {
  Settings settings;
  settings.cache_dir = folder / "cache";
  testing::write_file(path, to_json(of_size(1)) + "\n");
  ::chmod((folder / "cache").c_str(), 0700);
  const auto reason = [&] {
    const auto problems = record_sources(settings).at(0).file.problems;
    const auto refused = add_record(path, of_size(2));
    EXPECT_EQ(refused, records_problem(path)) << "known before the first trial";
    if (problems.empty() || !refused) return std::string("none");
    EXPECT_NE(problems[0].find(path), std::string::npos) << problems[0];
    const std::string why = problems[0].substr(problems[0].find(": ") + 2);
    EXPECT_TRUE(refused->ends_with(why)) << *refused;
    return why;
  };
  EXPECT_EQ(reason(), "none");
  testing::fs::resize_file(path, (64 << 20) + 1);
  EXPECT_EQ(reason(), "it has 67108865 bytes, and the limit is 67108864");
  testing::fs::resize_file(path, 0);
  ::chmod(path.c_str(), 0620);
  EXPECT_NE(reason().find("chmod go-w"), std::string::npos);
  testing::fs::rename(path, path + ".other");
  testing::fs::create_symlink(path + ".other", path);
  EXPECT_NE(reason().find("symbolic link"), std::string::npos);
  testing::fs::remove(path + ".other");
  ASSERT_TRUE(records_problem(path)) << "the link leads nowhere";
  EXPECT_EQ(add_record(path, of_size(2)), records_problem(path));
  EXPECT_TRUE(testing::fs::is_symlink(path));
  testing::fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(reason().find("not a regular file"), std::string::npos);
}

TEST_F(TuningFiles, AFileOfOtherContentIsNotOverwritten) {
  const std::string notes = "# mine\n\nof today\n";
  testing::write_file(path, notes);
  ::chmod((folder / "cache").c_str(), 0700);
  ASSERT_TRUE(records_problem(path));
  EXPECT_NE(records_problem(path)->find("has other content"), std::string::npos);
  EXPECT_EQ(add_record(path, of_size(1)), records_problem(path));
  EXPECT_EQ(testing::content_of(path), notes);
  testing::write_file(path, "");
  EXPECT_FALSE(records_problem(path));
  EXPECT_FALSE(add_record(path, of_size(1)));
  EXPECT_FALSE(records_problem(path));
}

TEST_F(TuningFiles, LieNextToTheCache) {
  Settings settings;
  EXPECT_EQ(user_records(settings), "");
  settings.cache_dir = "/c";
  EXPECT_EQ(user_records(settings), "/c/tuning.jsonl");
}

}  // namespace
}  // namespace jitstep::jit
