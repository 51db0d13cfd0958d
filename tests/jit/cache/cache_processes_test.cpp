// Many processes on one cache, and writers that die at any moment.
#include <sys/syscall.h>

#include <csignal>
#include <set>
#include <sstream>

#include "jit/base/private_files.h"
#include "jit/base/process.h"
#include "jit/cache/cache_fixtures.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using namespace jitstep::testing;
using namespace testing;

TEST(CacheProcesses, SixteenOnOneEmptyCacheGetRightKernelsAndLeaveCompleteFiles) {
  TemporaryFolder folder;
  const auto work = [&](int) -> std::string {
    const Finished child = run_program({JITSTEP_CACHE_CHILD, "kernels"}, "",
                                       own_variables({{"JITSTEP_CACHE_DIR", folder / "cache"},
                                                      {"JITSTEP_CACHE_READONLY", ""},
                                                      {"JITSTEP_LOG", ""}}));
    return str_cat(child.status, "\n", child.output);
  };
  const std::vector<std::string> reports = in_children(16, work);
  for (const std::string& one : reports) EXPECT_EQ(one, reports[0]);
  std::istringstream lines(reports[0]);
  std::set<std::string> keys;
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "0") << reports[0];
  for (int sum = 11; sum <= 13; ++sum) {
    int number = 0;
    std::string key;
    lines >> number >> key;
    EXPECT_EQ(number, sum);
    keys.insert(key);
  }
  EXPECT_FALSE(lines >> line) << "a warning: " << reports[0];
  const std::vector<ListedEntry> entries = DiskCache(in(folder / "cache")).list(true);
  EXPECT_EQ(entries.size(), 3u);
  for (const ListedEntry& entry : entries) {
    EXPECT_EQ(entry.problem, "");
    EXPECT_TRUE(keys.contains(fs::path(entry.file.path).stem().string()));
  }
  EXPECT_EQ(testing::files_below(folder.path()).size(), 3u) << "no temporary file remains";
  Engine late(testing::settings_with_cache(folder / "cache"));
  EXPECT_TRUE(late.kernel(testing::adding_unit("1"), "unit", Target::cpu())->from_cache());
}

// The fastest process creates the folders that the others then find, so that they catch up and race.
TEST(CacheProcesses, SixteenThatMakeTheSameFoldersAllSucceed) {
  TemporaryFolder folder;
  const auto work = [&](int) -> std::string {
    for (int i = 0; i < 500; ++i) {
      const auto problem = make_folder(folder / str_cat(i % 8, "/", i, "/cache"));
      if (problem) return *problem;
    }
    return "";
  };
  for (const std::string& reports : in_children(16, work)) EXPECT_EQ(reports, "");
}

// Checks that must hold after a writer was killed, with and without an older entry.
class KilledWriter : public ::testing::Test {
 protected:
  const Key key = key_of("a");
  const std::string fresh = std::string(20000, 'n'), older = "older";

  void write() { DiskCache(in(folder.path())).publish(key, entry_of(fresh)); }

  void before(bool entry_is_there) {
    fs::remove(file);
    if (entry_is_there) DiskCache(in(folder.path())).publish(key, entry_of(older));
  }

  // Another process must see either the previous state or the new entry, and must be able to write again.
  std::string after(bool entry_was_there) {
    return in_child([&]() -> std::string {
      testing::WarningCollector warnings;
      DiskCache cache(in(folder.path()));
      const std::string seen = payload_of(cache.find(key));
      const std::string was = entry_was_there ? older : "(a miss)";
      if (seen != was && seen != fresh) return "neither old nor new: " + seen.substr(0, 20);
      for (const ListedEntry& entry : cache.list(true)) {
        if (!entry.problem.empty()) return entry.problem;
      }
      cache.publish(key, entry_of("healed"));
      if (payload_of(cache.find(key)) != "healed") return "did not heal";
      return warnings.messages().empty() ? "" : warnings.messages()[0];
    });
  }

  // The cache deletes old temporary files of killed writers.
  void expect_sweeping() {
    for (const std::string& left : testing::files_below(folder.path())) {
      if (left != file) age(left, 2);
    }
    write();
    EXPECT_EQ(testing::files_below(folder.path()), std::vector<std::string>{file});
  }

  TemporaryFolder folder;
  std::string file = entry_path(folder.path(), key);
};

TEST_F(KilledWriter, AtEachSystemCallLeavesTheOldOrTheNewEntryIntact) {
  int stops = 0, left_aside = 0;
  for (const bool there : {false, true}) {
    for (int stop = 1;; ++stop) {
      before(there);
      const Traced end = kill_at_stop(stop, [&] { write(); });
      if (end == Traced::not_allowed) GTEST_SKIP() << "no tracing here: see AtEachKindOfSystemCall";
      EXPECT_EQ(after(there), "") << "killed at stop " << stop;
      if (end == Traced::finished) break;
      ASSERT_LT(stop, 2000);
      ++stops;
    }
    left_aside += static_cast<int>(testing::files_below(folder.path()).size()) - 1;
  }
  EXPECT_GT(stops, 40) << "two stops for each call of two writes";
  EXPECT_GT(left_aside, 0) << "some were killed between making the file and renaming it";
  RecordProperty("stops", stops);
  expect_sweeping();
}

// The same without ptrace, which containers may forbid. A seccomp filter kills the writer when it makes a call of one
// kind. This is coarser, because the filter cannot count, but needs no privilege.
TEST_F(KilledWriter, AtEachKindOfSystemCallLeavesTheOldOrTheNewEntryIntact) {
  const std::vector<std::vector<long>> kinds = {
      {SYS_openat},
      {SYS_write},
      {SYS_fsync},
#ifdef SYS_rename
      {SYS_rename, SYS_renameat, SYS_renameat2},
      {SYS_getdents64},
      {SYS_lstat, SYS_stat, SYS_newfstatat},
#else
      {SYS_renameat, SYS_renameat2},
      {SYS_getdents64},
      {SYS_newfstatat},
#endif
      {SYS_close},
  };
  for (const bool there : {false, true}) {
    for (const auto& calls : kinds) {
      before(there);
      const std::string end = in_child([&]() -> std::string {
        if (!fail_system_calls(calls, 0)) return kNotAllowed;
        write();
        return "was not killed";
      });
      EXPECT_EQ(end, str_cat("killed by signal ", SIGSYS)) << "call " << calls[0];
      EXPECT_EQ(after(there), "") << "killed at call " << calls[0];
    }
  }
  expect_sweeping();
}

}  // namespace
}  // namespace jitstep::jit
