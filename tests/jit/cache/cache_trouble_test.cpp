// Disks that are full, read-only, over quota or removed, and environments that name no folder. Kernels must run from
// memory after one warning, and no temporary file may remain.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "jit/cache/cache_fixtures.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using namespace jitstep::testing;
using namespace testing;

// Two publishes that fail: one warning that contains `reason`, misses, and no temporary file.
std::string failing_publishes(const std::string& folder, const std::string& reason,
                              std::size_t bytes = 100) {
  WarningCollector warnings;
  DiskCache cache(in(folder));
  for (const char* name : {"x", "y"}) {
    cache.publish(key_of(name), entry_of(std::string(bytes, 'p')));
    if (cache.find(key_of(name))) return "an entry that could not be written was found";
  }
  if (warnings.messages().size() != 1) return str_cat(warnings.messages().size(), " warnings");
  const std::string message = warnings.messages()[0];
  if (message.find(reason) == std::string::npos) return "the warning is: " + message;
  return message.find("only in memory") == std::string::npos ? "no consequence: " + message : "";
}

std::string only_files_left(const std::string& folder, std::size_t count) {
  const auto files = testing::files_below(folder);
  return files.size() == count ? "" : str_cat(files.size(), " files are left, such as ", files[0]);
}

struct Fault {
  const char* what;
  std::vector<long> calls;
};

// Newer architectures have only the system calls that end in "at".
#ifdef SYS_open
const Fault kOpen{"open", {SYS_open, SYS_openat}};
const Fault kRename{"rename", {SYS_rename, SYS_renameat, SYS_renameat2}};
const Fault kMakeFolder{"mkdir", {SYS_mkdir, SYS_mkdirat}};
const Fault kStampOrDelete{"unlink", {SYS_utimensat, SYS_unlink, SYS_unlinkat}};
#else
const Fault kOpen{"open", {SYS_openat}};
const Fault kRename{"rename", {SYS_renameat, SYS_renameat2}};
const Fault kMakeFolder{"mkdir", {SYS_mkdirat}};
const Fault kStampOrDelete{"unlink", {SYS_utimensat, SYS_unlinkat}};
#endif
const Fault kWrite{"write", {SYS_write, SYS_pwrite64, SYS_writev}};
const Fault kSync{"sync", {SYS_fsync, SYS_fdatasync}};

TEST(CacheTrouble, EveryFailingSystemCallOfAWriteIsOneWarning) {
  for (const Fault& fault : {kOpen, kWrite, kSync, kRename}) {
    for (const int error : {ENOSPC, EDQUOT, EROFS, EIO, EACCES, EMFILE}) {
      TemporaryFolder folder;
      DiskCache(in(folder.path())).publish(key_of("a"), entry_of("payload"));
      EXPECT_EQ(in_child([&]() -> std::string {
                  DiskCache opened(in(folder.path()));
                  if (!opened.find(key_of("a"))) return "not found before";
                  if (!fail_system_calls(fault.calls, error)) return kNotAllowed;
                  return failing_publishes(folder.path(), std::strerror(error));
                }),
                "")
          << fault.what << ": " << std::strerror(error);
      EXPECT_EQ(only_files_left(folder.path(), 1), "") << fault.what;
      EXPECT_EQ(payload_of(DiskCache(in(folder.path())).find(key_of("a"))), "payload");
    }
  }
}

TEST(CacheTrouble, AFolderThatExceedsTheQuotaIsOneWarning) {
  TemporaryFolder folder;
  for (const int error : {ENOSPC, EDQUOT, EROFS, EACCES}) {
    EXPECT_EQ(in_child([&]() -> std::string {
                const bool set = fail_system_calls(kMakeFolder.calls, error);
                return set ? failing_publishes(folder / "new/cache", std::strerror(error))
                           : kNotAllowed;
              }),
              "");
  }
}

TEST(CacheTrouble, AFailedStampOrDeletionIsIgnored) {
  TemporaryFolder folder;
  DiskCache(in(folder.path())).publish(key_of("a"), entry_of("payload"));
  testing::write_file(entry_path(folder.path(), key_of("bad")), "damaged");
  EXPECT_EQ(in_child([&]() -> std::string {
              if (!fail_system_calls(kStampOrDelete.calls, EROFS)) return kNotAllowed;
              WarningCollector warnings;
              Settings settings = in(folder.path());
              settings.cache_bytes = 1500;  // small enough that publishing would evict
              DiskCache cache(settings);
              for (int round = 0; round < 3; ++round) {
                if (!cache.find(key_of("a"))) return "not found";
                if (cache.find(key_of("bad"))) return "damage was served";
                cache.publish(key_of(std::to_string(round)), entry_of("payload"));
              }
              return warnings.messages().empty() ? "" : warnings.messages()[0];
            }),
            "");
}

TEST(CacheTrouble, AFullDiskIsOneWarningAndOlderEntriesAreServed) {
  TemporaryFolder folder;
  const std::string report = on_a_small_disk(folder.path(), 64, [&]() -> std::string {
    DiskCache(in(folder.path())).publish(key_of("a"), entry_of("payload"));
    const std::string problem = failing_publishes(folder.path(), "No space left on device", 200000);
    if (!problem.empty()) return problem;
    DiskCache cache(in(folder.path()));
    if (payload_of(cache.find(key_of("a"))) != "payload") return "the older entry was deleted";
    cache.publish(key_of("b"), entry_of("payload"));
    if (!cache.find(key_of("b"))) return "there is space again, but the cache does not use it";
    return only_files_left(folder.path(), 2);
  });
  if (report == kNotAllowed) GTEST_SKIP() << "no mounts here; failing system calls stand in for it";
  EXPECT_EQ(report, "");
}

TEST(CacheTrouble, ALimitOnFileSizesIsAWarningAndNoSignal) {
  TemporaryFolder folder;
  EXPECT_EQ(in_child([&]() -> std::string {
              ::signal(SIGXFSZ, SIG_DFL);
              const rlimit limit{20000, 20000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return kNotAllowed;
              const std::string problem =
                  failing_publishes(folder.path(), std::strerror(EFBIG), 30000);
              DiskCache cache(in(folder.path()));
              cache.publish(key_of("small"), entry_of("payload"));
              return cache.find(key_of("small")) ? problem : "a small entry fits";
            }),
            "");
  EXPECT_EQ(only_files_left(folder.path(), 1), "");
}

TEST(CacheTrouble, AReadOnlyDiskServesEntriesAfterOneWarning) {
  TemporaryFolder folder;
  DiskCache(in(folder.path())).publish(key_of("a"), entry_of("payload"));
  EXPECT_EQ(in_child([&]() -> std::string {
              const char* const path = folder.path().c_str();
              const bool mounted =
                  enter_mount_namespace() && ::mount(path, path, nullptr, MS_BIND, nullptr) == 0 &&
                  ::mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
              if (!mounted && ::chmod(path, 0500) != 0) return kNotAllowed;
              if (!DiskCache(in(path)).find(key_of("a"))) return "not found";
              return failing_publishes(path,
                                       mounted ? std::strerror(EROFS) : std::strerror(EACCES));
            }),
            "");
  ::chmod(folder.path().c_str(), 0700);
}

TEST(CacheTrouble, ACacheFolderThatIsAFileOrImpossibleIsOneWarning) {
  TemporaryFolder folder;
  testing::write_file(folder / "file", "mine");
  fs::create_symlink("loop", folder / "loop");
  fs::create_symlink("/nowhere/at/all", folder / "dangling");
  const std::string long_name(300, 'n');
  std::string long_path = folder.path();
  for (int i = 0; i < 60; ++i) long_path += "/" + std::string(100, 'd');
  for (const std::string& path : {folder / "file", folder / "file/below", folder / "loop",
                                  folder / "loop/below", folder / "dangling", folder / long_name,
                                  long_path, std::string("/proc/none"), std::string("/dev/null")}) {
    WarningCollector warnings;
    DiskCache cache(in(path));
    for (int round = 0; round < 2; ++round) {
      EXPECT_FALSE(cache.find(key_of("a"))) << path;
      cache.publish(key_of("a"), entry_of("payload"));
      cache.discard(key_of("a"));
      EXPECT_TRUE(cache.list(true).empty());
    }
    ASSERT_EQ(warnings.messages().size(), 1u) << path;
    EXPECT_NE(warnings.messages()[0].find("Set JITSTEP_CACHE_DIR"), std::string::npos);
  }
  EXPECT_EQ(testing::content_of(folder / "file"), "mine");
}

TEST(CacheTrouble, APathAsLongAsTheSystemAllowsWorks) {
  TemporaryFolder folder;
  std::string path = folder.path();
  while (path.size() < 3800) path += "/" + std::string(100, 'd');
  WarningCollector warnings;
  DiskCache cache(in(path));
  cache.publish(key_of("a"), entry_of("payload"));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "payload");
  EXPECT_TRUE(warnings.messages().empty());
}

TEST(CacheTrouble, AFolderThatIsDeletedOrReplacedWhileRunningNeverThrows) {
  TemporaryFolder folder;
  const std::string parent = folder / "parent", own = folder / "parent/cache";
  const auto each_call = [&](DiskCache& cache) {
    cache.find(key_of("a"));
    cache.publish(key_of("a"), entry_of("payload"));
    cache.discard(key_of("b"));
    cache.list(true);
  };
  for (const char* replacement : {"", "loop", "/dev/null", "/nowhere"}) {
    WarningCollector warnings;
    DiskCache cache(in(own));
    each_call(cache);
    EXPECT_TRUE(cache.find(key_of("a")));
    fs::remove_all(parent);
    if (*replacement) fs::create_symlink(*replacement == 'l' ? "parent" : replacement, parent);
    for (int round = 0; round < 3; ++round) EXPECT_NO_THROW(each_call(cache)) << replacement;
    const bool healed = cache.find(key_of("a")).has_value();
    EXPECT_EQ(healed, !*replacement) << replacement;
    EXPECT_EQ(warnings.messages().size(), *replacement ? 1u : 0u) << replacement;
    fs::remove_all(parent);
  }
}

TEST(CacheTrouble, ALinkInPlaceOfADeletedFolderIsNotUsed) {
  TemporaryFolder folder;
  WarningCollector warnings;
  DiskCache cache(in(folder / "cache"));
  cache.publish(key_of("a"), entry_of("payload"));
  fs::remove_all(folder / "cache");
  fs::create_symlink(folder / "other", folder / "cache");  // dangling when the cache opens it
  cache.publish(key_of("b"), entry_of("payload"));
  EXPECT_FALSE(fs::exists(folder / "other"));
  EXPECT_EQ(warnings.messages().size(), 1u);
}

// ---- the environment, and how an engine handles it ----------------------------------------------

std::string step_with_environment(const std::function<void()>& change) {
  return in_child([&]() -> std::string {
    for (const char* name : {"JITSTEP_CACHE_DIR", "JITSTEP_CACHE_READONLY", "XDG_CACHE_HOME",
                             "HOME", "TMPDIR", "JITSTEP_LOG", "JITSTEP_TEMPLATES"}) {
      ::unsetenv(name);
    }
    change();
    WarningCollector warnings;
    Engine engine(Settings::from_environment());
    for (const char* term : {"1", "2", "1"}) {
      if (add_to(*engine.kernel(adding_unit(term), "unit", Target::cpu()), 1) !=
          1 + std::atof(term))
        return "a wrong number";
    }
    return warnings.messages().size() == 1 ? "" : str_cat(warnings.messages().size(), " warnings");
  });
}

TEST(CacheTrouble, WithoutAnyVariableKernelsRunAndThereIsOneWarning) {
  EXPECT_EQ(step_with_environment([] {}), "");
}

TEST(CacheTrouble, AHomeThatIsMissingOrForeignIsOneWarning) {
  EXPECT_EQ(step_with_environment([] { ::setenv("HOME", "/dev/null/home", 1); }), "");
  EXPECT_EQ(step_with_environment([] { ::setenv("HOME", "/proc/1/none", 1); }), "");
  EXPECT_EQ(step_with_environment([] { ::setenv("HOME", "relative", 1); }), "");
}

TEST(CacheTrouble, AnEmptyEnvironmentStillFindsACompilerByItsPath) {
  EXPECT_EQ(in_child([]() -> std::string {
              const std::string path = Settings::from_environment().path;
              ::clearenv();
              WarningCollector warnings;
              Settings settings = Settings::from_environment();
              settings.path = path;
              Engine engine(settings);
              const float sum = add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1);
              return sum == 2 && warnings.messages().size() == 1 ? "" : "wrong";
            }),
            "");
}

}  // namespace
}  // namespace jitstep::jit
