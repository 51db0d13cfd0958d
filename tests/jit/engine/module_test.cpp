#include "jit/engine/module.h"

#include <sys/stat.h>
#include <unistd.h>

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
