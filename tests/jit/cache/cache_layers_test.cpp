// The read-only cache below the user's own folder.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/host_compiler.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using jitstep::testing::enter_mount_namespace;
using jitstep::testing::in_child;
using namespace testing;

// Everything in a folder: contents, modes and time stamps.
std::map<std::string, std::string> picture_of(const std::string& folder) {
  std::map<std::string, std::string> picture;
  for (const std::string& file : testing::files_below(folder)) {
    struct stat status {};
    EXPECT_EQ(::lstat(file.c_str(), &status), 0);
    picture[file] = str_cat(status.st_mode, " ", status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec,
                            " ", status.st_ino, " ", content_of(file));
  }
  return picture;
}

class ReadOnlyLayer : public ::testing::Test {
 protected:
  ReadOnlyLayer() {
    DiskCache filler(in(shared));
    filler.publish(key_of("a"), entry_of("shared"));
    filler.publish(key_of("bad"), entry_of("shared"));
    testing::write_file(entry_path(shared, key_of("bad")), "damaged");
    for (const char* name : {"a", "bad"}) testing::age(entry_path(shared, key_of(name)), 5);
  }

  TemporaryFolder folder;
  std::string shared = folder / "shared", own = folder / "own";
};

TEST_F(ReadOnlyLayer, ServesEntriesAndIsNeverWrittenNotEvenStamps) {
  testing::write_file(shared + "/." + key_of("a").digest() + ".Ab3xYz.tmp", "left over");
  testing::age(shared + "/." + key_of("a").digest() + ".Ab3xYz.tmp", 50);
  const auto before = picture_of(shared);
  Settings settings = in(own, shared);
  settings.cache_bytes = 1000;
  DiskCache cache(settings);
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "shared");
  EXPECT_FALSE(cache.find(key_of("bad"))) << "damage below is a miss";
  EXPECT_FALSE(cache.find(key_of("none")));
  EXPECT_TRUE(cache.find_best(key_of("a"), [](auto&) { return true; }));
  cache.discard(key_of("a"));
  cache.publish(key_of("a"), entry_of("own"));
  for (const char* name : {"x", "y", "z"}) cache.publish(key_of(name), entry_of(name));
  EXPECT_EQ(picture_of(shared), before);
}

TEST_F(ReadOnlyLayer, AHitBelowIsNotPromoted) {
  DiskCache cache(in(own, shared));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "shared");
  EXPECT_TRUE(testing::files_below(own).empty());
}

TEST_F(ReadOnlyLayer, TheUsersOwnEntryIsPreferred) {
  DiskCache cache(in(own, shared));
  cache.publish(key_of("a"), entry_of("own"));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "own");
  EXPECT_EQ(payload_of(DiskCache(in(shared)).find(key_of("a"))), "shared");
}

TEST_F(ReadOnlyLayer, ADamagedOwnEntryFallsBackToTheOneBelow) {
  testing::write_file(entry_path(own, key_of("a")), "damaged");
  DiskCache cache(in(own, shared));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "shared");
  EXPECT_TRUE(testing::files_below(own).empty()) << "and is deleted";
}

TEST_F(ReadOnlyLayer, ADamagedEntryBelowIsHealedInTheUsersOwnFolder) {
  DiskCache cache(in(own, shared));
  EXPECT_FALSE(cache.find(key_of("bad")));
  cache.publish(key_of("bad"), entry_of("healed"));
  EXPECT_EQ(payload_of(cache.find(key_of("bad"))), "healed");
}

TEST_F(ReadOnlyLayer, ServesEntriesWithoutAUserFolder) {
  WarningCollector warnings;
  DiskCache cache(in("", shared));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "shared");
  EXPECT_TRUE(warnings.messages().empty()) << "which has all that was asked for";
  cache.publish(key_of("b"), entry_of("payload"));
  EXPECT_FALSE(cache.find(key_of("b")));
  EXPECT_EQ(warnings.messages().size(), 1u);
}

TEST_F(ReadOnlyLayer, MissingOrAFileIsOneWarningAndTheUserFolderWorks) {
  testing::write_file(folder / "file", "");
  for (const std::string& wrong : {folder / "none", folder / "file", folder / "file/below"}) {
    WarningCollector warnings;
    DiskCache cache(in(own, wrong));
    for (int round = 0; round < 2; ++round) {
      EXPECT_FALSE(cache.find(key_of("b")));
      cache.publish(key_of("c"), entry_of("payload"));
      EXPECT_EQ(payload_of(cache.find(key_of("c"))), "payload");
    }
    ASSERT_EQ(warnings.messages().size(), 1u) << wrong;
    EXPECT_NE(warnings.messages()[0].find("JITSTEP_CACHE_READONLY"), std::string::npos);
    EXPECT_NE(warnings.messages()[0].find(wrong), std::string::npos);
    EXPECT_FALSE(fs::exists(folder / "none")) << "it is not made";
  }
}

TEST_F(ReadOnlyLayer, DisappearingWhileRunningIsAMiss) {
  WarningCollector warnings;
  DiskCache cache(in(own, shared));
  EXPECT_TRUE(cache.find(key_of("a")));
  fs::remove_all(shared);
  EXPECT_FALSE(cache.find(key_of("a")));
  EXPECT_FALSE(fs::exists(shared));
  EXPECT_TRUE(warnings.messages().empty());
}

TEST_F(ReadOnlyLayer, OfTheProgramsPackageIsSearchedLastAndTrustedLikeTheProgram) {
  const std::string packaged = folder / "packaged";
  DiskCache(in(packaged)).publish(key_of("a"), entry_of("packaged"));
  DiskCache(in(packaged)).publish(key_of("p"), entry_of("packaged"));
  for (const std::string& file : {packaged, entry_path(packaged, key_of("p"))})
    ASSERT_EQ(::chmod(file.c_str(), 0777), 0);
  WarningCollector warnings;
  Settings settings = in(own, shared);
  settings.packaged_kernels = packaged;
  const auto before = picture_of(packaged);
  DiskCache cache(settings);
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "shared");
  EXPECT_EQ(payload_of(cache.find(key_of("p"))), "packaged");
  EXPECT_EQ(cache.list(true).size(), 4u);
  cache.discard(key_of("p"));
  EXPECT_EQ(picture_of(packaged), before);
  EXPECT_TRUE(warnings.messages().empty());
}

TEST_F(ReadOnlyLayer, OfTheProgramsPackageMayConsistOfLinks) {
  const std::string packaged = folder / "packaged";
  fs::create_directory(packaged);
  for (const std::string& file : files_below(shared))
    fs::create_symlink(file, fs::path(packaged) / fs::path(file).filename());
  Settings settings = in(own);
  settings.packaged_kernels = packaged;
  DiskCache cache(settings);
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "shared");
  EXPECT_EQ(payload_of(cache.find_best(key_of("a"), [](auto&) { return true; })), "shared");
  EXPECT_EQ(cache.list(false).size(), 2u);
  EXPECT_FALSE(DiskCache(in(own, packaged)).find(key_of("a"))) << "links of a shared folder";
}

TEST_F(ReadOnlyLayer, OfTheProgramsPackageMayBeMissing) {
  WarningCollector warnings;
  Settings settings = in(own);
  settings.packaged_kernels = folder / "none";
  EXPECT_FALSE(DiskCache(settings).find(key_of("a")));
  EXPECT_TRUE(warnings.messages().empty());
}

TEST_F(ReadOnlyLayer, WritableByOthersIsRejected) {
  for (const mode_t mode : {0720, 0702, 0777, 01777}) {
    WarningCollector warnings;
    ASSERT_EQ(::chmod(shared.c_str(), mode), 0);
    DiskCache cache(in(own, shared));
    EXPECT_FALSE(cache.find(key_of("a"))) << std::oct << mode;
    ASSERT_EQ(warnings.messages().size(), 1u);
    EXPECT_NE(warnings.messages()[0].find("other users can write to"), std::string::npos);
  }
  ASSERT_EQ(::chmod(shared.c_str(), 0755), 0);
  EXPECT_TRUE(DiskCache(in(own, shared)).find(key_of("a"))) << "others may read it";
}

TEST_F(ReadOnlyLayer, OfAnotherUserIsRejectedAndOfRootIsNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "giving files away takes root";
  WarningCollector warnings;
  ASSERT_EQ(::chown(entry_path(shared, key_of("a")).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(DiskCache(in(own, shared)).find(key_of("a"))) << "a file of another user";
  ASSERT_EQ(::chown(entry_path(shared, key_of("a")).c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(shared.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(DiskCache(in(own, shared)).find(key_of("a"))) << "a folder of another user";
  EXPECT_EQ(warnings.messages().size(), 1u);
  ASSERT_EQ(::chown(shared.c_str(), 0, 0), 0);
  // An ordinary user reads the files that root wrote. All folders on the path must be readable.
  for (const std::string& each : {folder.path(), shared}) ::chmod(each.c_str(), 0755);
  ::chmod(entry_path(shared, key_of("a")).c_str(), 0644);
  EXPECT_EQ(in_child([&]() -> std::string {
              if (::setgid(12345) != 0 || ::setuid(12345) != 0) return "still root";
              const auto found = DiskCache(in("", shared)).find(key_of("a"));
              return payload_of(found) == "shared" ? "" : "root's entry was refused";
            }),
            "");
}

TEST_F(ReadOnlyLayer, IsReadOnAReadOnlyFileSystem) {
  const std::string report = in_child([&]() -> std::string {
    const bool mounted =
        enter_mount_namespace() &&
        ::mount(shared.c_str(), shared.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
        ::mount(nullptr, shared.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
    // If the process cannot mount, the mode prevents an ordinary user from writing.
    if (!mounted && ::chmod(shared.c_str(), 0500) != 0) return "neither mounted nor closed";
    if (mounted && std::ofstream(shared + "/probe").good()) return "the disk can be written to";
    for (const Settings& settings : {in(own, shared), in(shared)}) {
      WarningCollector warnings;
      DiskCache cache(settings);
      if (payload_of(cache.find(key_of("a"))) != "shared") return "nothing was found";
      if (cache.find(key_of("bad"))) return "damage was served";
      if (!warnings.messages().empty()) return "reading gave: " + warnings.messages()[0];
      if (settings.cache_dir == own) continue;
      cache.publish(key_of("b"), entry_of("payload"));
      cache.publish(key_of("c"), entry_of("payload"));
      if (warnings.messages().size() != 1) return "writing gave no warning, or several";
    }
    return "";
  });
  EXPECT_EQ(report, "");
  ::chmod(shared.c_str(), 0700);
}

TEST_F(ReadOnlyLayer, StaleEntriesAreCompiledAgainIntoTheUserFolder) {
  const auto with_template = [](Engine& engine, int value) {
    engine.templates().add("rules/mine.cuh", str_cat("constexpr int kMine = ", value, ";\n"));
    const std::string unit = "#include \"rules/mine.cuh\"\n" + adding_unit("kMine");
    return engine.kernel(unit, "unit", Target::cpu());
  };
  Engine filler(settings_with_cache(folder / "team"));
  with_template(filler, 3);
  const auto before = picture_of(folder / "team");
  Settings settings = settings_with_cache(own);
  settings.cache_readonly = folder / "team";
  Engine engine(settings);
  EXPECT_EQ(add_to(*with_template(engine, 3), 1), 4);
  EXPECT_EQ(engine.statistics().from_disk, 1u);
  EXPECT_EQ(add_to(*with_template(engine, 5), 1), 6) << "the template has changed since";
  EXPECT_EQ(engine.statistics().compiled, 1u);
  EXPECT_EQ(testing::files_below(own).size(), 1u);
  EXPECT_EQ(picture_of(folder / "team"), before);
}

}  // namespace
}  // namespace jitstep::jit
