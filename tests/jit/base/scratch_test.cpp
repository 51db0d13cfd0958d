#include "jit/base/scratch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "jit/compiler/host_compiler.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using testing::TemporaryFolder;
namespace fs = testing::fs;

void make_old(const std::string& path) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(25));
}

// A process that made a private folder there a day ago and was killed before it could remove the folder.
void die_with_a_folder_in(const std::string& parent) {
  const pid_t child = ::fork();
  if (child == 0) {
    const PrivateFolder folder({parent});
    std::ofstream(folder.path() + "/kernel.so") << "half";
    fs::create_directories(folder.path() + "/below/it");
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  for (const auto& entry : fs::directory_iterator(parent)) make_old(entry.path());
}

std::size_t entries_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(Scratch, SweepsFoldersOfKilledPrograms) {
  TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) die_with_a_folder_in(folder.path());
  EXPECT_EQ(entries_in(folder.path()), 3u);
  sweep_scratch({"/dev/null/none", folder.path()});
  EXPECT_EQ(entries_in(folder.path()), 0u);
}

TEST(Scratch, DoesNotSweepFoldersInUseOrForeignFiles) {
  TemporaryFolder folder;
  const PrivateFolder used({folder.path()});
  std::ofstream(used.path() + "/kernel.so") << "whole";
  const std::string name = fs::path(used.path()).filename();
  fs::create_directories(folder / "jitstep-old123/work");  // no known lock
  std::ofstream(folder / (name.substr(0, name.size() - 1) + "!")) << "a file";
  fs::create_directory_symlink(used.path(), folder / (name.substr(0, name.size() - 1) + "?"));
  make_old(used.path());
  for (int i = 0; i < 2; ++i) sweep_scratch({folder.path()});
  EXPECT_EQ(entries_in(folder.path()), 4u);
  EXPECT_EQ(testing::files_below(used.path()).size(), 1u);
}

// On a file system that several nodes share, another node may hold the lock.
TEST(Scratch, DoesNotSweepRecentFoldersWhateverTheirLock) {
  TemporaryFolder folder;
  const std::string young = folder / "jitstep-work-abc123", old = folder / "jitstep-work-abc456";
  for (const std::string& path : {young, old}) fs::create_directory(path);
  make_old(old);
  sweep_scratch({folder.path()});
  EXPECT_TRUE(fs::exists(young));
  EXPECT_FALSE(fs::exists(old));
}

TEST(Scratch, AForkedChildDoesNotFreeItsParentsFolder) {
  TemporaryFolder folder;
  const PrivateFolder used({folder.path()});
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  make_old(used.path());
  sweep_scratch({folder.path()});
  EXPECT_TRUE(fs::exists(used.path()));
}

TEST(Scratch, TheNextProgramThatCompilesSweeps) {
  TemporaryFolder folder;
  die_with_a_folder_in(folder.path());
  Settings settings = Settings::from_environment();
  settings.tmpdir = folder.path();
  HostCompiler compiler(settings);
  EXPECT_FALSE(compiler.compile(testing::adding_unit("1"), "unit", Target::cpu()).image.empty());
  EXPECT_EQ(entries_in(folder.path()), 0u);
}

}  // namespace
}  // namespace jitstep::jit
