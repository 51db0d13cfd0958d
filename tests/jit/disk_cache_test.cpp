#include "jitstep/jit/disk_cache.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "fixtures.h"
#include "jitstep/jit/digest.h"
#include "jitstep/jit/file_io.h"
#include "jitstep/jit/private_files.h"

namespace jitstep::jit {
namespace {

namespace fs = testing::fs;
using testing::TemporaryFolder;
using testing::WarningCollector;

Settings in(const std::string& folder) {
  Settings settings;
  settings.cache_dir = folder;
  return settings;
}

Key key_of(const std::string& content) {
  return {sha256_hex(content), Target::cuda(90), "a compiler, version 1"};
}

CacheEntry entry_of(const std::string& payload) {
  const auto bytes = bytes_of(payload);
  return {"unit", {{bytes.begin(), bytes.end()}, "the log", {{"step", 40, 1, 2, 3, 4}}}, 12.5};
}

std::string payload_of(const std::optional<CacheEntry>& entry) {
  return entry ? text_of(entry->binary.image) : "(a miss)";
}

std::string file_of(const std::string& folder, const Key& key) {
  return folder + "/" + key.digest() + ".jsk";
}

std::string content_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

TEST(Key, EveryFieldChangesTheDigest) {
  const Key key = key_of("a");
  Key other = key;
  EXPECT_EQ(key.digest(), other.digest());
  EXPECT_EQ(key.digest().size(), 64u);
  other.text_digest = sha256_hex("b");
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

TEST(CacheEntry, AnyFlippedByteAndAnyTruncationIsAMiss) {
  const Key key = key_of("a");
  const std::vector<std::byte> whole = encode_entry(key, entry_of("payload"));
  ASSERT_EQ(payload_of(decode_entry(whole, key)), "payload");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::byte> damaged = whole;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(decode_entry(damaged, key)) << "byte " << i << " flipped";
    EXPECT_FALSE(decode_entry(std::span(whole).first(i), key)) << "cut to " << i;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back({});
  EXPECT_FALSE(decode_entry(longer, key));
}

TEST(CacheEntry, ItsHeaderHoldsTheKeyInClear) {
  const Key key = key_of("a");
  const auto header = entry_header(encode_entry(key, entry_of("payload")));
  ASSERT_TRUE(header);
  for (const std::string& part : {key.text_digest, key.compiler, std::string("sm_90")}) {
    EXPECT_NE(header->find(part), std::string::npos) << *header;
  }
}

TEST(DiskCache, WhatIsPublishedIsFoundByASecondCache) {
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

TEST(DiskCache, AFileThatOthersMayWriteIsNotRead) {
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

TEST(DiskCache, TwoProcessesThatWriteTheSameEntryLeaveAWholeOne) {
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

TEST(DiskCache, AFolderThatOthersMayWriteIsRefusedWithOneWarning) {
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

TEST(DiskCache, AFolderOfAnotherUserIsRefused) {
  TemporaryFolder folder;
  std::string foreign = "/usr";  // root's, unless the test is root's itself
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

TEST(DiskCache, AFolderThatCannotBeMadeMeansMemoryOnlyAndOneWarning) {
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

TEST(DiskCache, AFailedWriteIsOneWarningAndReadingGoesOn) {
  TemporaryFolder folder;
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("payload"));
  // A folder in the entry's place cannot be renamed over, not even by root.
  for (const char* name : {"b", "c"}) {
    testing::write_file(file_of(folder.path(), key_of(name)) + "/in the way", "");
  }
  WarningCollector warnings;
  cache.publish(key_of("b"), entry_of("payload"));
  cache.publish(key_of("c"), entry_of("payload"));
  EXPECT_EQ(warnings.messages().size(), 1u);
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "payload");
  EXPECT_EQ(testing::files_below(folder.path()).size(), 3u) << "nothing is left aside";
}

TEST(DiskCache, AFolderThatWasRemovedIsMadeAgain) {
  TemporaryFolder folder;
  DiskCache cache(in(folder / "cache"));
  cache.publish(key_of("a"), entry_of("payload"));
  fs::remove_all(folder / "cache");
  EXPECT_FALSE(cache.find(key_of("a")));
  cache.publish(key_of("a"), entry_of("payload"));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "payload");
}

TEST(DiskCache, TheSizeLimitDropsWhatWasUnusedForLongest) {
  TemporaryFolder folder;
  Settings settings = in(folder.path());
  settings.cache_bytes = 5000;
  DiskCache cache(settings);
  const auto now = fs::file_time_type::clock::now();
  for (const char* name : {"a", "b", "c"}) {
    cache.publish(key_of(name), entry_of(std::string(1000, 'x')));
    fs::last_write_time(file_of(folder.path(), key_of(name)), now - std::chrono::hours(2));
  }
  EXPECT_TRUE(cache.find(key_of("a"))) << "which makes it the one used last";
  cache.publish(key_of("d"), entry_of(std::string(1500, 'x')));
  EXPECT_TRUE(cache.find(key_of("a")));
  EXPECT_TRUE(cache.find(key_of("d")));
  EXPECT_EQ(testing::files_below(folder.path()).size(), 2u);
}

TEST(DiskCache, AStaleAsideFileIsSweptAndAFreshOneIsNot) {
  TemporaryFolder folder;
  testing::write_file(folder / ".old.tmp", "");
  testing::write_file(folder / ".new.tmp", "");
  fs::last_write_time(folder / ".old.tmp",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("payload"));
  EXPECT_FALSE(fs::exists(folder / ".old.tmp"));
  EXPECT_TRUE(fs::exists(folder / ".new.tmp"));
}

TEST(DiskCache, TheReadOnlyLayerServesAndIsNeverWritten) {
  TemporaryFolder folder;
  DiskCache(in(folder / "shared")).publish(key_of("a"), entry_of("shared"));
  DiskCache(in(folder / "shared")).publish(key_of("bad"), entry_of("shared"));
  testing::write_file(file_of(folder / "shared", key_of("bad")), "damaged");
  Settings settings = in(folder / "own");
  settings.cache_readonly = folder / "shared";
  DiskCache cache(settings);
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "shared");
  EXPECT_FALSE(cache.find(key_of("bad")));
  EXPECT_EQ(content_of(file_of(folder / "shared", key_of("bad"))), "damaged");
  cache.publish(key_of("a"), entry_of("own"));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "own") << "the user's folder goes first";
  EXPECT_EQ(testing::files_below(folder / "shared").size(), 2u);
  EXPECT_EQ(payload_of(DiskCache(in(folder / "shared")).find(key_of("a"))), "shared");
}

TEST(DiskCache, AMissingReadOnlyLayerIsOneWarning) {
  TemporaryFolder folder;
  WarningCollector warnings;
  Settings settings = in(folder.path());
  settings.cache_readonly = folder / "none";
  DiskCache cache(settings);
  EXPECT_FALSE(cache.find(key_of("a")));
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_NE(warnings.messages()[0].find("JITSTEP_CACHE_READONLY"), std::string::npos);
}

TEST(DiskCache, WithoutACompilerAnEntryOfTheSameTextAndTargetWillDo) {
  TemporaryFolder folder;
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("payload"));
  testing::write_file(folder / "0.jsk", "damaged");
  Key asked = key_of("a");
  asked.compiler = "";
  const auto any = [](const std::string&) { return true; };
  EXPECT_EQ(payload_of(cache.find_of_any_compiler(asked, any)), "payload");
  EXPECT_FALSE(cache.find_of_any_compiler(asked, [](auto&) { return false; }));
  asked.target = Target::cuda(80);
  EXPECT_FALSE(cache.find_of_any_compiler(asked, any));
}

}  // namespace
}  // namespace jitstep::jit
