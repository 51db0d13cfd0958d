#include "jit/engine/module.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "jit/compiler/host_compiler.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using IntFunction = int (*)();

std::vector<std::byte> compiled(const std::string& unit) {
  HostCompiler compiler(Settings::from_environment());
  return compiler.compile(unit, "unit", Target::cpu()).image;
}

std::string answering(int number) {
  return str_cat("extern \"C\" __attribute__((visibility(\"default\"))) int answer() { return ",
                 number, "; }\nextern \"C\" int hidden() { return 0; }\n");
}

int call(const Module& module) { return reinterpret_cast<IntFunction>(module.symbol("answer"))(); }

TEST(Module, FindsASymbolByItsPlainName) {
  const auto module = load_host_module(compiled(answering(7)), "unit", {});
  EXPECT_EQ(call(*module), 7);
  EXPECT_THROW(module->cuda_entry("answer"), Error);
}

TEST(Module, AMissingOrHiddenSymbolIsNamed) {
  const auto module = load_host_module(compiled(answering(7)), "my unit", {});
  for (const char* name : {"none", "hidden"}) {
    const std::string message = error_of([&] { module->symbol(name); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find("my unit"), std::string::npos) << message;
  }
}

TEST(Module, ManyModulesCoexist) {
  const std::vector<std::byte> one = compiled(answering(1)), two = compiled(answering(2));
  std::unique_ptr<Module> kept = load_host_module(one, "kept", {});
  for (int round = 0; round < 20; ++round) {
    const auto a = load_host_module(round % 2 ? one : two, "a", {});
    const auto b = load_host_module(round % 2 ? two : one, "b", {});
    EXPECT_EQ(call(*a), round % 2 ? 1 : 2);
    EXPECT_EQ(call(*b), round % 2 ? 2 : 1);
    EXPECT_EQ(call(*kept), 1);
  }
}

// An object with a process-wide unique symbol (STB_GNU_UNIQUE) stays loaded, and glibc then finds it by name.
TEST(Module, AnObjectThatStaysLoadedIsNotConfusedWithAnother) {
  const auto unit = [](int number) {
    return str_cat("template <class T> struct __attribute__((visibility(\"default\"))) S",
                   " { static T value; };\ntemplate <class T> T S<T>::value = ", number,
                   ";\nextern \"C\" __attribute__((visibility(\"default\"))) int* place()",
                   " { return &S<int>::value; }\n", answering(number));
  };
  const std::vector<std::byte> one = compiled(unit(1)), two = compiled(unit(2));
  for (int round = 0; round < 6; ++round) {
    const auto module = load_host_module(round % 2 ? two : one, "unit", {});
    EXPECT_EQ(call(*module), round % 2 ? 2 : 1);
  }
}

// Closes the descriptors of all memory files of modules.
int close_memory_files() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string file = std::filesystem::read_symlink(entry.path(), gone).string();
    if (file.find("memfd:jitstep") != file.npos)
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  for (const int fd : found) ::close(fd);
  return static_cast<int>(found.size());
}

// Daemons close all descriptors that they do not know.
TEST(Module, IsAnotherOneAfterTheProgramHasClosedTheFirstOnesFile) {
  const std::vector<std::byte> one = compiled(answering(1)), two = compiled(answering(2));
  const auto first = load_host_module(one, "one", {});
  ASSERT_GE(close_memory_files(), 1);
  auto second = load_host_module(two, "two", {});
  EXPECT_EQ(call(*first), 1);
  EXPECT_EQ(call(*second), 2);
  ASSERT_GE(close_memory_files(), 1);
  const int mine = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (int fd = mine; fd < mine + 16; ++fd) ::dup2(mine, fd);
  second.reset();
  for (int fd = mine; fd < mine + 16; ++fd) EXPECT_EQ(::close(fd), 0) << "a file of the program";
}

TEST(Module, AnInvalidImageThrows) {
  testing::TemporaryFolder folder;
  const std::vector<std::byte> garbage(1000, std::byte{42});
  EXPECT_THROW(check_image(garbage, "my unit", Target::cpu()), ImageError);
  EXPECT_THROW(check_image(garbage, "my unit", Target::cuda(90)), ImageError);
  EXPECT_THROW(check_image({}, "my unit", Target::cuda(90)), ImageError);
  const std::string message =
      error_of<ImageError>([&] { load_host_module(garbage, "my unit", {folder.path()}); });
  EXPECT_NE(message.find("my unit"), std::string::npos) << message;
  EXPECT_TRUE(testing::fs::is_empty(folder.path())) << "no file may remain";
}

TEST(Module, UsesAFileIfMemoryFilesCannotBeMapped) {
  testing::TemporaryFolder folder;
  const std::vector<std::byte> one = compiled(answering(1)), two = compiled(answering(2));
  const auto a = load_host_module_from_folder(one, "a", {"/dev/null/none", folder.path()});
  const auto b = load_host_module_from_folder(two, "b", {folder.path()});
  EXPECT_EQ(call(*a), 1);
  EXPECT_EQ(call(*b), 2);
  EXPECT_TRUE(testing::fs::is_empty(folder.path())) << "a mapped file needs no name";
}

}  // namespace
}  // namespace jitstep::jit
