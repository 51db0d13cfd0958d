#include "jit/cache/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include "jit/cache/cache_fixtures.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using namespace testing;

class CacheFolder : public ::testing::Test {
 protected:
  // An entry file of `bytes` bytes, last used `hours` ago.
  std::string put(const std::string& name, std::size_t bytes, int hours) {
    const std::string file = entry_path(folder.path(), key_of(name));
    testing::write_file(file, std::string(bytes, 'x'));
    age(file, hours);
    return file;
  }

  TemporaryFolder folder;
};

TEST_F(CacheFolder, CountsOnlyFilesNamedLikeEntries) {
  const std::string entry = put("a", 10, 0), digest = key_of("a").digest();
  for (const std::string& other : {std::string("a.jsk"), digest + ".jsk.bak", digest,
                                   "." + digest + ".jsk", "x" + digest + ".jsk"}) {
    testing::write_file(folder / other, "mine");
  }
  std::string upper = digest;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  testing::write_file(folder / (upper + ".jsk"), "mine");
  fs::create_directory(folder / (std::string(64, '1') + ".jsk"));
  fs::create_symlink("/etc/hostname", folder / (std::string(64, '2') + ".jsk"));
  const auto files = entry_files(folder.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].path, entry);
  EXPECT_EQ(files[0].bytes, 10u);
}

TEST_F(CacheFolder, TheUsersOwnFilesSurviveEvictionAndSweeping) {
  // A user may have named a folder with other files as the cache.
  const std::vector<std::string> own = {"notes.tmp", ".notes.tmp",        "work.jsk",
                                        "notes",     ".notes.Ab3xYz.tmp", "tuning.jsonl"};
  for (const std::string& name : own) {
    testing::write_file(folder / name, std::string(5000, 'x'));
    age(folder / name, 100);
  }
  const std::string directory = folder / (std::string(64, '1') + ".jsk");
  fs::create_directory(directory);
  put("a", 1000, 3);
  sweep_left_overs(folder.path());
  evict(folder.path(), 0, "");
  EXPECT_EQ(testing::files_below(folder.path()).size(), own.size()) << "only the entry was deleted";
  EXPECT_TRUE(fs::exists(directory));
}

TEST_F(CacheFolder, EvictsLeastRecentlyUsedEntriesDownToNineTenths) {
  std::vector<std::string> files;
  for (int i = 0; i < 10; ++i) files.push_back(put(std::to_string(i), 100, 20 - i));
  evict(folder.path(), 1000, "");
  EXPECT_EQ(entry_files(folder.path()).size(), 10u) << "exactly the limit is no excess";
  put("more", 1, 0);
  evict(folder.path(), 1000, "");
  EXPECT_FALSE(fs::exists(files[0]));
  EXPECT_FALSE(fs::exists(files[1]));
  for (int i = 2; i < 10; ++i) EXPECT_TRUE(fs::exists(files[static_cast<std::size_t>(i)])) << i;
}

TEST_F(CacheFolder, TheNewEntryStaysEvenIfItsStampIsTheOldest) {
  const std::string keep = put("new", 600, 1000);
  const std::string other = put("other", 600, 0);
  evict(folder.path(), 1000, keep);
  EXPECT_TRUE(fs::exists(keep));
  EXPECT_FALSE(fs::exists(other));
}

TEST_F(CacheFolder, AccessTimesDoNotCount) {
  const std::string read_lately = put("a", 600, 5), used_lately = put("b", 600, 1);
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ASSERT_EQ(::utimensat(AT_FDCWD, read_lately.c_str(), times, 0), 0);
  evict(folder.path(), 1000, "");
  EXPECT_FALSE(fs::exists(read_lately)) << "a backup that reads all files does not count as use";
  EXPECT_TRUE(fs::exists(used_lately));
}

TEST_F(CacheFolder, AHitUpdatesTheStampEvenIfAccessTimesAreOff) {
  const std::string file = put("a", 10, 5);
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  mark_used(file);
  ASSERT_EQ(::stat(file.c_str(), &after), 0);
  EXPECT_GT(after.st_mtim.tv_sec, before.st_mtim.tv_sec + 4 * 3600);
  EXPECT_EQ(after.st_atim.tv_sec, before.st_atim.tv_sec) << "the stamp is the cache's own";
}

TEST_F(CacheFolder, RecentlyFoundEntriesOutliveRecentlyWrittenOnes) {
  Settings settings = in(folder.path());
  settings.cache_bytes = 6000;  // holds two of these entries, but not three
  DiskCache cache(settings);
  const auto found_in_a_way = [&](bool by_any_compiler) {
    const Key key = key_of("found");
    if (!by_any_compiler) return cache.find(key).has_value();
    return cache.find_best(key, [](auto&) { return true; }).has_value();
  };
  for (const bool by_any_compiler : {false, true}) {
    for (const char* name : {"found", "written"}) {
      cache.publish(key_of(name), entry_of(std::string(2000, 'x')));
    }
    age(entry_path(folder.path(), key_of("found")), 5);
    age(entry_path(folder.path(), key_of("written")), 1);
    ASSERT_TRUE(found_in_a_way(by_any_compiler));
    cache.publish(key_of("third"), entry_of(std::string(2000, 'x')));
    EXPECT_TRUE(cache.find(key_of("found"))) << by_any_compiler;
    EXPECT_FALSE(cache.find(key_of("written"))) << by_any_compiler;
    cache.discard(key_of("third"));
  }
}

TEST_F(CacheFolder, EntriesWithStampsInTheFutureAreEvictedFirst) {
  const std::string future = put("a", 500, -24 * 365), old = put("b", 500, 24 * 365);
  const std::string ahead = put("c", 300, -1);  // within the tolerance for clocks that differ
  evict(folder.path(), 1000, "");
  EXPECT_FALSE(fs::exists(future));
  EXPECT_TRUE(fs::exists(old));
  EXPECT_TRUE(fs::exists(ahead));
  evict(folder.path(), 700, "");
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(ahead));
}

TEST_F(CacheFolder, ACopyThatLosesTheStampsIsStillServedAndCounted) {
  DiskCache(in(folder / "one")).publish(key_of("a"), entry_of("payload"));
  age(entry_path(folder / "one", key_of("a")), 100);
  fs::copy(folder / "one",
           folder / "two");  // like cp -r: new stamps, and the umask of the user who copies
  fs::permissions(folder / "two", fs::perms::owner_all);
  EXPECT_EQ(payload_of(DiskCache(in(folder / "two")).find(key_of("a"))), "payload");
}

TEST_F(CacheFolder, TemporaryFilesAreSweptWhenAnHourOld) {
  const auto aside = [&](const std::string& name) {
    return folder / ("." + key_of(name).digest() + ".Ab3xYz.tmp");
  };
  const std::vector<std::pair<std::string, int>> files = {
      {"fresh", 0}, {"old", 2}, {"future", -100}, {"skewed", -2}};
  for (const auto& [name, hours] : files) {
    testing::write_file(aside(name), "half an ent");
    age(aside(name), hours);
  }
  sweep_left_overs(folder.path());
  EXPECT_TRUE(fs::exists(aside("fresh"))) << "its writer may still be running";
  EXPECT_TRUE(fs::exists(aside("skewed")));
  EXPECT_FALSE(fs::exists(aside("old")));
  EXPECT_FALSE(fs::exists(aside("future")));
}

TEST_F(CacheFolder, TemporaryTuningRecordsAreSweptWhenAnHourOld) {
  const std::string fresh = folder / ".tuning.Ab3xYz.tmp", old = folder / ".tuning.Cd3xYz.tmp";
  for (const std::string& file : {fresh, old}) testing::write_file(file, "{\"sche");
  age(old, 2);
  sweep_left_overs(folder.path());
  EXPECT_TRUE(fs::exists(fresh)) << "its writer may still be running";
  EXPECT_FALSE(fs::exists(old));
}

TEST_F(CacheFolder, IdentitiesOfCompilersAreSweptAfter30DaysWithoutUse) {
  const auto identity = [&](char digit) { return folder / (std::string(64, digit) + ".compiler"); };
  const std::string users = folder / "mine.compiler";
  const std::vector<std::pair<std::string, int>> files = {{identity('1'), 0},
                                                          {identity('2'), 29 * 24},
                                                          {identity('3'), 31 * 24},
                                                          {identity('4'), -100},
                                                          {users, 100 * 24}};
  for (const auto& [file, hours] : files) {
    testing::write_file(file, "an answer");
    age(file, hours);
  }
  DiskCache(in(folder.path())).trim(1000);
  EXPECT_TRUE(fs::exists(identity('1')));
  EXPECT_TRUE(fs::exists(identity('2')));
  EXPECT_FALSE(fs::exists(identity('3')));
  EXPECT_FALSE(fs::exists(identity('4'))) << "its time comes from a wrong clock";
  EXPECT_TRUE(fs::exists(users));
}

TEST_F(CacheFolder, ClearingKeepsOnlyTuningRecordsAndForeignFiles) {
  put("a", 10, 0);
  testing::write_file(folder / (std::string(64, '1') + ".compiler"), "an answer");
  for (const char* kept : {"mine.compiler", "tuning.jsonl"})
    testing::write_file(folder / kept, "kept");
  DiskCache(in(folder.path())).clear();
  std::vector<std::string> left = testing::files_below(folder.path(), "");
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{folder / "mine.compiler", folder / "tuning.jsonl"}));
}

TEST_F(CacheFolder, AnEntryLargerThanTheLimitIsNotWrittenAndEvictsNothing) {
  Settings settings = in(folder.path());
  settings.cache_bytes = 5000;
  testing::WarningCollector warnings;
  DiskCache cache(settings);
  cache.publish(key_of("a"), entry_of("small"));
  cache.publish(key_of("b"), entry_of(std::string(6000, 'x')));
  EXPECT_FALSE(cache.find(key_of("b")));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "small");
  EXPECT_EQ(testing::files_below(folder.path()).size(), 1u);
  settings.cache_bytes = 0;
  DiskCache(settings).publish(key_of("c"), entry_of("small"));
  EXPECT_EQ(testing::files_below(folder.path()).size(), 1u) << "a limit of 0 writes nothing";
  EXPECT_TRUE(warnings.messages().empty());
}

TEST_F(CacheFolder, AHugeSparseFileIsAMissAndUsesNoMemory) {
  const std::string file = put("a", 1, 0);
  fs::resize_file(file, std::uintmax_t{1} << 40);
  DiskCache cache(in(folder.path()));
  EXPECT_FALSE(cache.find(key_of("a")));
  cache.publish(key_of("a"), entry_of("payload"));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "payload");
}

TEST_F(CacheFolder, ReadersAndWritersOfOtherProcessesRaceWithEviction) {
  Settings settings = in(folder.path());
  settings.cache_bytes = 6000;  // holds about three of the sixteen entries
  const auto payload = [](int i) { return std::string(1200, static_cast<char>('a' + i)); };
  const auto work = [&](int) -> std::string {
    DiskCache cache(settings);
    int hits = 0;
    for (int round = 0; round < 400; ++round) {
      const int i = (round * 7 + round / 16) % 16;
      const Key key = key_of(std::to_string(i));
      const auto found = cache.find(key);
      if (found && payload_of(found) != payload(i)) return "a wrong kernel";
      hits += found ? 1 : 0;
      if (!found) cache.publish(key, entry_of(payload(i)));
    }
    return hits > 0 ? "" : "nothing was ever found";
  };
  for (const std::string& report : jitstep::testing::in_children(4, work)) EXPECT_EQ(report, "");
  DiskCache cache(settings);
  cache.publish(key_of("last"), entry_of(payload(0)));
  std::uintmax_t bytes = 0;
  for (const std::string& file : testing::files_below(folder.path())) bytes += fs::file_size(file);
  EXPECT_LE(bytes, settings.cache_bytes);
  EXPECT_EQ(testing::files_below(folder.path()).size(), entry_files(folder.path()).size());
}

}  // namespace
}  // namespace jitstep::jit
