#include "jit/base/private_files.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "jit/cache/cache_fixtures.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using namespace testing;

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

std::string problem(const std::string& folder, Trust trust = Trust::own) {
  return folder_problem(folder, trust).value_or("");
}

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

TEST(PrivateFiles, CreatesFoldersWithMode0700WhateverTheUmask) {
  TemporaryFolder folder;
  for (const mode_t mask : {0u, 022u, 077u}) {
    const std::string made = folder / str_cat("made ", mask, "/by/us");
    const mode_t before = ::umask(mask);
    EXPECT_EQ(make_folder(made), std::nullopt);
    ::umask(before);
    for (fs::path part = made; part != fs::path(folder.path()); part = part.parent_path()) {
      struct stat status {};
      ASSERT_EQ(::stat(part.c_str(), &status), 0);
      EXPECT_EQ(status.st_mode & 07777, 0700u) << part;
    }
    EXPECT_EQ(problem(made), "");
  }
}

TEST(PrivateFiles, CreatesAFolderBesideTheTargetOfALink) {
  TemporaryFolder folder;
  ASSERT_EQ(make_folder(folder / "data/target"), std::nullopt);
  fs::create_directory_symlink(folder / "data/target", folder / "link");
  const std::string wanted = folder / "link/../cache";
  EXPECT_EQ(make_folder(wanted), std::nullopt);
  EXPECT_EQ(problem(wanted), "");
  EXPECT_TRUE(fs::is_directory(folder / "data/cache"));
  EXPECT_FALSE(fs::exists(folder / "cache"));
}

TEST(PrivateFiles, RejectsAFolderThatOthersMayWriteTo) {
  TemporaryFolder folder;
  for (const mode_t mode : {0720u, 0702u, 0770u, 0777u, 01777u}) {
    ASSERT_EQ(::chmod(folder.path().c_str(), mode), 0);
    const char* const advice = mode == 01777u ? "Use a folder inside of it" : "chmod go-w";
    EXPECT_TRUE(says(problem(folder.path()), advice)) << std::oct << mode;
  }
  for (const mode_t mode : {0700u, 0755u, 0500u}) {
    ASSERT_EQ(::chmod(folder.path().c_str(), mode), 0);
    EXPECT_EQ(problem(folder.path()), "") << std::oct << mode;
  }
}

// The umask 002 makes such files. Distributions use it if each user has a group of the same name.
TEST(PrivateFiles, ReadsSourceThatTheUsersOwnGroupMayWrite) {
  TemporaryFolder folder;
  const std::string file = folder / "mine.cuh";
  testing::write_file(file, "int a;\n");
  ASSERT_EQ(::chmod(file.c_str(), 0664), 0);
  const passwd* const user = ::getpwuid(::geteuid());
  const group* const own = user == nullptr ? nullptr : ::getgrgid(user->pw_gid);
  if (own == nullptr || own->gr_name != std::string(user->pw_name) || own->gr_mem[0] != nullptr)
    GTEST_SKIP() << "this user has no private group";
  if (::chown(file.c_str(), user->pw_uid, user->pw_gid) != 0)
    GTEST_SKIP() << "this process is not in the user's group";
  EXPECT_EQ(read_code_file(file), "int a;\n");
  EXPECT_FALSE(read_trusted(file, Trust::own_or_root, 100)) << "a cache is private";
  ASSERT_EQ(::chmod(file.c_str(), 0666), 0);
  EXPECT_THROW(read_code_file(file), Error);
  if (::chown(file.c_str(), user->pw_uid, 12345) != 0) return;  // this takes root
  ASSERT_EQ(::chmod(file.c_str(), 0664), 0);
  EXPECT_THROW(read_code_file(file), Error);
}

TEST(PrivateFiles, ChecksOwnerAndTargetOfALinkToAFolder) {
  TemporaryFolder folder;
  fs::create_directory(folder / "target");
  fs::create_symlink(folder / "target", folder / "link");
  fs::permissions(folder / "target", fs::perms::owner_all);
  EXPECT_EQ(problem(folder / "link"), "") << "a cache may be moved to a larger disk";
  fs::permissions(folder / "target", fs::perms::all);
  EXPECT_TRUE(says(problem(folder / "link"), "chmod go-w"));
  fs::permissions(folder / "target", fs::perms::owner_all);
  fs::create_symlink(folder / "nowhere", folder / "dangling");
  EXPECT_NE(problem(folder / "dangling"), "");
  fs::create_symlink("loop", folder / "loop");
  EXPECT_NE(problem(folder / "loop"), "");
  if (::geteuid() != 0) return;  // giving files away takes root
  ASSERT_EQ(::lchown((folder / "link").c_str(), 12345, 12345), 0);
  for (const char* link : {"link", "link/", "link/.", "link//./"})
    EXPECT_TRUE(says(problem(folder / link), "a link that belongs to another user")) << link;
  EXPECT_TRUE(says(problem(folder / "link", Trust::own_or_root), "another user"));
}

TEST(PrivateFiles, RejectsAFileInPlaceOfAFolder) {
  TemporaryFolder folder;
  testing::write_file(folder / "file", "");
  EXPECT_TRUE(says(problem(folder / "file"), "is not a folder"));
  EXPECT_NE(problem(folder / "none"), "");
  EXPECT_NE(problem("/dev/null"), "");
  EXPECT_NE(make_folder(folder / "file/below"), std::nullopt);
}

TEST(PrivateFiles, RejectsAFolderOfAnotherUser) {
  if (::geteuid() != 0) {
    EXPECT_TRUE(says(problem("/usr"), "another user"));
    EXPECT_EQ(problem("/usr", Trust::own_or_root), "");
    return;
  }
  TemporaryFolder folder;
  ASSERT_EQ(::chown(folder.path().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(says(problem(folder.path()), "another user"));
  EXPECT_TRUE(says(problem(folder.path(), Trust::own_or_root), "another user"));
}

// Other things that may lie where an entry is expected. The cache must not hang, crash or serve them.
class InPlaceOfAnEntry : public ::testing::Test {
 protected:
  // The lookup is a miss, and the next publish replaces the thing by an entry.
  void expect_miss_and_healing() {
    WarningCollector warnings;
    DiskCache cache(in(folder.path()));
    EXPECT_FALSE(cache.find(key_of("a")));
    cache.find_best(key_of("a"), [](auto&) { return true; });
    cache.list(true);
    cache.publish(key_of("a"), entry_of("healed"));
    EXPECT_EQ(payload_of(cache.find(key_of("a"))), "healed");
    EXPECT_TRUE(warnings.messages().empty());
  }

  TemporaryFolder folder;
  std::string file = entry_path(folder.path(), key_of("a"));
};

TEST_F(InPlaceOfAnEntry, APipe) {
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  expect_miss_and_healing();
}

TEST_F(InPlaceOfAnEntry, ASocket) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const FileHandle here(::open(folder.path().c_str(), O_PATH | O_CLOEXEC));
  const std::string name =  // socket names must be short
      str_cat("/proc/self/fd/", here.get(), "/", fs::path(file).filename().string());
  ASSERT_LT(name.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, name.c_str());
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_miss_and_healing();
  ::close(socket);
}

TEST_F(InPlaceOfAnEntry, ADevice) {
  if (::geteuid() != 0 || ::mknod(file.c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0) {
    fs::create_symlink("/dev/zero",
                       file);  // stands for a device file, which an ordinary user cannot create
  }
  expect_miss_and_healing();
}

TEST_F(InPlaceOfAnEntry, ALinkEvenToACompleteEntry) {
  TemporaryFolder other;
  DiskCache(in(other.path())).publish(key_of("a"), entry_of("elsewhere"));
  const std::string target = entry_path(other.path(), key_of("a"));
  fs::create_symlink(target, file);
  expect_miss_and_healing();
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_EQ(payload_of(DiskCache(in(other.path())).find(key_of("a"))), "elsewhere")
      << "what the link pointed to is not written to";
}

TEST_F(InPlaceOfAnEntry, ADanglingLink) {
  fs::create_symlink("/nowhere/at/all", file);
  expect_miss_and_healing();
}

TEST_F(InPlaceOfAnEntry, AFolderIsAMissAndOneWarningWhenAnEntryIsWritten) {
  fs::create_directory(file);
  testing::write_file(file + "/mine", "kept");
  WarningCollector warnings;
  DiskCache cache(in(folder.path()));
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(cache.find(key_of("a")));
    cache.publish(key_of("a"), entry_of("payload"));
  }
  EXPECT_EQ(warnings.messages().size(), 1u);
  EXPECT_TRUE(fs::exists(file + "/mine"));
  EXPECT_EQ(testing::files_below(folder.path()).size(), 1u) << "no temporary file remains";
}

TEST_F(InPlaceOfAnEntry, AFileThatOthersMayWriteTo) {
  for (const mode_t mode : {0620u, 0602u, 0666u}) {
    DiskCache(in(folder.path())).publish(key_of("a"), entry_of("payload"));
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    expect_miss_and_healing();
  }
}

TEST_F(InPlaceOfAnEntry, AFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "giving files away takes root";
  DiskCache(in(folder.path())).publish(key_of("a"), entry_of("payload"));
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  expect_miss_and_healing();
}

TEST_F(InPlaceOfAnEntry, AFileThatMayNotBeRead) {
  DiskCache(in(folder.path())).publish(key_of("a"), entry_of("payload"));
  ASSERT_EQ(::chmod(file.c_str(), 0), 0);
  if (::geteuid() != 0) expect_miss_and_healing();  // root can read it anyway
}

TEST_F(InPlaceOfAnEntry, AnEmptyFile) {
  testing::write_file(file, "");
  expect_miss_and_healing();
}

TEST_F(InPlaceOfAnEntry, AnEntryWithASecondNameIsServedAndNeverWrittenThrough) {
  DiskCache cache(in(folder.path()));
  cache.publish(key_of("a"), entry_of("first"));
  TemporaryFolder backup;
  fs::create_hard_link(file, backup / "copy");
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "first") << "as cp -l and backups make them";
  const std::string before = testing::content_of(backup / "copy");
  cache.publish(key_of("a"), entry_of("second"));
  EXPECT_EQ(payload_of(cache.find(key_of("a"))), "second");
  EXPECT_EQ(testing::content_of(backup / "copy"), before);
}

TEST(PrivateFiles, DoesNotReadAFileLargerThanTheLimit) {
  TemporaryFolder folder;
  testing::write_file(folder / "file", "12345");
  EXPECT_TRUE(read_trusted(folder / "file", Trust::own, 5));
  EXPECT_FALSE(read_trusted(folder / "file", Trust::own, 4));
  EXPECT_TRUE(read_trusted(folder / "file", Trust::own, kNoLimit));
}

TEST(PrivateFiles, ReadsTheStartOfAFileUnderTheSameConditions) {
  TemporaryFolder folder;
  const std::string path = folder / "file";
  testing::write_file(path, "12345");
  const TrustedFile file(path, Trust::own, kNoLimit);
  EXPECT_EQ(file.problem(), "");
  EXPECT_EQ(file.size(), 5u);
  EXPECT_EQ(text_of(file.start(3).value()), "123");
  EXPECT_EQ(text_of(file.start(kNoLimit).value()), "12345");
  ASSERT_EQ(::chmod(path.c_str(), 0622), 0);
  EXPECT_TRUE(says(TrustedFile(path, Trust::own, kNoLimit).problem(), "other users can write"));
  EXPECT_FALSE(TrustedFile(path, Trust::own, kNoLimit).start(3));
  EXPECT_TRUE(TrustedFile(path, Trust::anyone, kNoLimit).start(3));
  EXPECT_FALSE(TrustedFile(path, Trust::anyone, 4).start(3)) << "larger than the limit";
}

TEST(PrivateFiles, FollowsLinksOnlyToFilesThatAreTrustedAnyway) {
  TemporaryFolder folder;
  testing::write_file(folder / "file", "12345");
  fs::create_symlink(folder / "file", folder / "link");
  EXPECT_EQ(TrustedFile(folder / "link", Trust::anyone, kNoLimit).size(), 5u);
  for (const Trust trust : {Trust::own, Trust::own_or_root})
    EXPECT_TRUE(says(TrustedFile(folder / "link", trust, kNoLimit).problem(), "a symbolic link"));
}

TEST(PrivateFiles, AFailedWriteHasItsErrorNumber) {
  TemporaryFolder folder;
  errno = 0;
  EXPECT_TRUE(write_atomically(folder / "none/file", {}));
  EXPECT_EQ(errno, ENOENT);
  fs::create_directories(folder / "file/in the way");
  EXPECT_TRUE(write_atomically(folder / "file", {}));
  EXPECT_EQ(errno, EISDIR);
}

TEST(PrivateFiles, KnowsTheNamesOfItsTemporaryFiles) {
  EXPECT_EQ(stem_of_temporary(".tuning.Ab3xYz.tmp"), "tuning");
  EXPECT_EQ(stem_of_temporary(".a.b.Ab3xYz.tmp"), "a.b");
  for (const char* other : {"", ".tmp", ".Ab3xYz.tmp", "tuning.Ab3xYz.tmp", ".tuning.Ab3xYz.tmq",
                            ".tuning.Ab3xY.tmp", ".tuning.tmp", ".tuning"})
    EXPECT_EQ(stem_of_temporary(other), std::nullopt) << other;
}

}  // namespace
}  // namespace jitstep::jit
