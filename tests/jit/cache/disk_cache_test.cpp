#include "jit/cache/disk_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "jit/base/private_files.h"
#include "jit/cache/cache_fixtures.h"

namespace jitstep::jit {
namespace {

using namespace testing;

std::string file_of(const std::string& folder, const Key& key) { return entry_path(folder, key); }

TEST(Key, EveryFieldChangesTheDigest) {
  const Key key = key_of("a");
  Key other = key;
  EXPECT_EQ(key.digest(), other.digest());
  EXPECT_EQ(key.digest().size(), 64u);
  other.token_digest = sha256_hex("b");
  EXPECT_NE(key.digest(), other.digest());
  other = key;
  other.target = Target::cuda(100);
  EXPECT_NE(key.digest(), other.digest());
  other = key;
  other.compiler += " ";
  EXPECT_NE(key.digest(), other.digest());
}

TEST(Digest, IsSha256) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DiskCache, ASecondCacheFindsAPublishedEntry) {
  TemporaryFolder folder;
  DiskCache first(in(folder / "made/by it"));
  EXPECT_FALSE(fs::exists(folder / "made")) << "nothing is touched before the first call";
  EXPECT_FALSE(first.find(key_of("a")));
  first.publish(key_of("a"), entry_of("payload"));
  const auto found = DiskCache(in(folder / "made/by it")).find(key_of("a"));
  ASSERT_EQ(payload_of(found), "payload");
  EXPECT_EQ(found->name, "unit");
  EXPECT_EQ(found->binary.log, "the log");
  EXPECT_EQ(found->binary.resources, entry_of("").binary.resources);
  EXPECT_EQ(found->compile_ms, 12.5);
  EXPECT_FALSE(DiskCache(in(folder / "made/by it")).find(key_of("b")));
  struct stat status {};
  ASSERT_EQ(stat((folder / "made/by it").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST(DiskCache, ADamagedFileIsDeletedAndHealed) {
  TemporaryFolder folder;
  DiskCache cache(in(folder.path()));
  const Key key = key_of("a");
  const std::string file = file_of(folder.path(), key);
  for (const std::string& damage : {std::string(), std::string("short"), std::string(5000, '\0')}) {
    testing::write_file(file, damage);
    EXPECT_FALSE(cache.find(key));
    EXPECT_FALSE(fs::exists(file));
    cache.publish(key, entry_of("again"));
    EXPECT_EQ(payload_of(cache.find(key)), "again");
  }
}

TEST(DiskCache, AnEntryUnderAnotherKeysNameIsAMiss) {
  TemporaryFolder folder;
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("payload"));
  fs::rename(file_of(folder.path(), key_of("a")), file_of(folder.path(), key_of("b")));
  EXPECT_FALSE(cache.find(key_of("b")));
}

TEST(DiskCache, DoesNotReadAFileThatOthersMayWriteTo) {
  TemporaryFolder folder;
  DiskCache cache(in(folder.path()));
  const Key key = key_of("a");
  cache.publish(key, entry_of("payload"));
  chmod(file_of(folder.path(), key).c_str(), 0666);
  EXPECT_FALSE(cache.find(key));
  fs::remove(file_of(folder.path(), key));
  fs::create_symlink("/etc/hostname", file_of(folder.path(), key));
  EXPECT_FALSE(cache.find(key)) << "a link is no regular file";
  cache.publish(key, entry_of("payload"));
  EXPECT_EQ(payload_of(cache.find(key)), "payload");
}

TEST(DiskCache, TwoProcessesThatWriteTheSameEntryLeaveACompleteOne) {
  TemporaryFolder folder;
  const Key key = key_of("a");
  const std::string payload(200000, 'p');
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    bool good = true;
    DiskCache cache(in(folder.path()));
    for (int round = 0; round < 40; ++round) {
      cache.publish(key, entry_of(payload));
      good = good && payload_of(cache.find(key)) == payload;
    }
    _exit(good ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "a writer read a damaged or missing entry";
  }
  EXPECT_EQ(testing::files_below(folder.path()).size(), 1u) << "only the entry is left";
}

TEST(DiskCache, AFolderThatOthersMayWriteToIsRejectedWithOneWarning) {
  TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  WarningCollector warnings;
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("payload"));
  EXPECT_FALSE(cache.find(key_of("a")));
  EXPECT_TRUE(testing::files_below(folder.path()).empty());
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_NE(warnings.messages()[0].find("other users"), std::string::npos);
}

TEST(DiskCache, AFolderOfAnotherUserIsRejected) {
  TemporaryFolder folder;
  std::string foreign = "/usr";  // owned by root, unless root runs this test
  if (geteuid() == 0) {
    foreign = folder / "foreign";
    fs::create_directory(foreign);
    ASSERT_EQ(chown(foreign.c_str(), 12345, 12345), 0);
  }
  EXPECT_NE(folder_problem(foreign, Trust::own).value_or("").find("another user"),
            std::string::npos);
  WarningCollector warnings;
  DiskCache cache(in(foreign));
  EXPECT_FALSE(cache.find(key_of("a")));
  EXPECT_EQ(warnings.messages().size(), 1u);
}

TEST(DiskCache, AFolderThatCannotBeCreatedMeansMemoryOnlyAndOneWarning) {
  WarningCollector warnings;
  DiskCache cache(in("/dev/null/cache"));
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(cache.find(key_of("a")));
    cache.publish(key_of("a"), entry_of("payload"));
  }
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_NE(warnings.messages()[0].find("/dev/null/cache"), std::string::npos);
  EXPECT_NE(warnings.messages()[0].find("JITSTEP_CACHE_DIR"), std::string::npos);
}

TEST(DiskCache, WithoutAnyFolderThereIsOneWarning) {
  WarningCollector warnings;
  DiskCache cache(in(""));
  EXPECT_FALSE(cache.find(key_of("a")));
  cache.publish(key_of("a"), entry_of("payload"));
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_NE(warnings.messages()[0].find("HOME"), std::string::npos);
}

TEST(DiskCache, AFailedWriteIsOneWarningAndReadingContinues) {
  TemporaryFolder folder;
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("payload"));
  // Not even root can rename a file over a folder at the entry's path.
  for (const char* name : {"b", "c"}) {
    testing::write_file(file_of(folder.path(), key_of(name)) + "/in the way", "");
  }
  WarningCollector warnings;
  cache.publish(key_of("b"), entry_of("payload"));
  cache.publish(key_of("c"), entry_of("payload"));
  EXPECT_EQ(warnings.messages().size(), 1u);
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "payload");
  EXPECT_EQ(testing::files_below(folder.path()).size(), 3u) << "no temporary file remains";
}

TEST(DiskCache, ARemovedFolderIsCreatedAgain) {
  TemporaryFolder folder;
  DiskCache cache(in(folder / "cache"));
  cache.publish(key_of("a"), entry_of("payload"));
  fs::remove_all(folder / "cache");
  EXPECT_FALSE(cache.find(key_of("a")));
  cache.publish(key_of("a"), entry_of("payload"));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "payload");
}

TEST(DiskCache, TheSizeLimitEvictsTheLeastRecentlyUsedEntries) {
  TemporaryFolder folder;
  Settings settings = in(folder.path());
  settings.cache_bytes = 5000;
  DiskCache cache(settings);
  const auto now = fs::file_time_type::clock::now();
  for (const char* name : {"a", "b", "c"}) {
    cache.publish(key_of(name), entry_of(std::string(1000, 'x')));
    fs::last_write_time(file_of(folder.path(), key_of(name)), now - std::chrono::hours(2));
  }
  EXPECT_TRUE(cache.find(key_of("a"))) << "now it is the most recently used";
  cache.publish(key_of("d"), entry_of(std::string(1500, 'x')));
  EXPECT_TRUE(cache.find(key_of("a")));
  EXPECT_TRUE(cache.find(key_of("d")));
  EXPECT_EQ(testing::files_below(folder.path()).size(), 2u);
}

TEST(DiskCache, WithoutACompilerAnEntryOfTheSameSourceAndTargetIsUsed) {
  TemporaryFolder folder;
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("payload"));
  testing::write_file(folder / (std::string(64, '0') + ".jsk"), "damaged");
  Key requested = key_of("a");
  requested.compiler = "";
  const auto any = [](const std::string&) { return true; };
  EXPECT_EQ(payload_of(cache.find_best(requested, any)), "payload");
  EXPECT_FALSE(cache.find_best(requested, [](auto&) { return false; }));
  Key better = key_of("a");
  better.compiler = "another";
  cache.publish(better, entry_of("better"));
  const auto another = [](const std::string& compiler) { return compiler == "another" ? 2 : 1; };
  EXPECT_EQ(payload_of(cache.find_best(requested, another)), "better");
  EXPECT_EQ(cache.find_best(requested, another)->key, better);
  requested.target = Target::cuda(80);
  EXPECT_FALSE(cache.find_best(requested, any));
}

}  // namespace
}  // namespace jitstep::jit
