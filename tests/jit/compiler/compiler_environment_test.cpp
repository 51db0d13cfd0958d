// Influences around a host compiler: environment variables that would change its output, and time.
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>

#include "jit/compiler/host_compiler.h"
#include "jit/fixtures.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using namespace testing;

// A script that stands for the compiler.
std::string script(const std::string& path, const std::string& lines) {
  testing::write_file(path, "#!/bin/sh\n" + lines + "\n");
  ::chmod(path.c_str(), 0700);
  return path;
}

// Variables that gcc, clang or the linker read, with values that change their output.
class CompilerEnvironment : public ::testing::Test {
 protected:
  CompilerEnvironment() {
    script(folder / "as", "exit 1");
    script(folder / "cc1plus", "exit 1");
    testing::write_file(folder / "stdint.h", "#error from CPATH\n");
    for (const auto& [name, value] : hostile()) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~CompilerEnvironment() override {
    for (const auto& [name, value] : hostile()) ::unsetenv(name.c_str());
  }

  std::vector<std::pair<std::string, std::string>> hostile() const {
    return {{"DEPENDENCIES_OUTPUT", folder / "dependencies"},
            {"SUNPRO_DEPENDENCIES", folder / "sunpro"},
            {"COMPILER_PATH", folder.path()},
            {"GCC_EXEC_PREFIX", folder.path() + "/"},
            {"CPATH", folder.path()},
            {"CPLUS_INCLUDE_PATH", folder.path()},
            {"LIBRARY_PATH", folder.path()},
            {"CCC_OVERRIDE_OPTIONS", "# +-DHOSTILE O0"},
            {"GCC_COMPARE_DEBUG", "-fno-inline"},
            {"COLLECT_GCC_OPTIONS", "-O0"},
            {"LD_RUN_PATH", folder.path()}};
  }

  TemporaryFolder folder;
};

TEST_F(CompilerEnvironment, VariablesDoNotChangeTheBinaryUnderOneKey) {
  const std::string unit = "#include <stdint.h>\n#ifdef HOSTILE\n#error an override\n#endif\n" +
                           adding_unit("int32_t{2}");
  HostCompiler compiler(Settings::from_environment());
  const std::string identity = compiler.identity(Target::cpu());
  const Binary binary = compiler.compile(unit, "unit", Target::cpu());
  for (const auto& [name, value] : hostile()) ::unsetenv(name.c_str());
  HostCompiler undisturbed(Settings::from_environment());
  EXPECT_EQ(identity, undisturbed.identity(Target::cpu()));
  EXPECT_EQ(binary.image, undisturbed.compile(unit, "unit", Target::cpu()).image);
  EXPECT_FALSE(fs::exists(folder / "dependencies"));
  EXPECT_FALSE(fs::exists(folder / "sunpro"));
}

// The compiler must see the same variables for its identity and for its work.
TEST_F(CompilerEnvironment, IsTheSameForTheIdentityAndForTheWork) {
  Settings settings = Settings::from_environment();
  settings.compiler_variables = {{"HOME", "/home/u"}, {"CCACHE_DIR", "/ccache"}};
  settings.tmpdir = folder.path();
  const std::string seen = folder / "seen";
  settings.cxx = script(folder / "c++", str_cat("/usr/bin/env | sed 's/=.*jitstep.*/=work/' | sort",
                                                " | grep -vE '^(PWD|SHLVL|_|OLDPWD)=' >> ", seen,
                                                "; echo end >> ", seen, "; exec c++ \"$@\""));
  HostCompiler compiler(settings);
  compiler.identity(Target::cpu());
  compiler.compile(adding_unit("1"), "unit", Target::cpu());
  std::ifstream in(seen);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  const std::string once = all.substr(0, all.find("end\n") + 4);
  EXPECT_EQ(all, once + once);
  for (const std::string part : {"HOME=/home/u\n", "CCACHE_DIR=/ccache\n", "LC_ALL=C\n", "PATH="})
    EXPECT_NE(once.find(part), std::string::npos) << once;
  for (const auto& [name, value] : hostile())
    EXPECT_EQ(once.find("\n" + name + "="), std::string::npos) << once;
}

TEST(CompilerTime, AHangingCompilerIsStoppedAndTheErrorTellsTheFix) {
  TemporaryFolder folder;
  Settings settings = settings_with_cache(folder / "cache");
  settings.cxx =
      script(folder / "c++",
             "case \" $* \" in *\" -E \"*) exec c++ \"$@\";; esac\nif [ -e \"$0.fixed\" ]; "
             "then exec c++ \"$@\"; fi\necho thinking >&2\nsleep 60 & wait");
  settings.compile_seconds = 1;
  Engine engine(settings);
  const auto start = std::chrono::steady_clock::now();
  const std::string message =
      error_of([&] { engine.kernel(adding_unit("1"), "unit", Target::cpu()); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  for (const std::string& part : {std::string("within 1 s"), settings.cxx, std::string("thinking"),
                                  std::string("JITSTEP_COMPILE_SECONDS")})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  testing::write_file(settings.cxx + ".fixed", "");
  settings.compile_seconds = 10'000'000'000;  // more than a time of the system's clock
  EXPECT_EQ(add_to(*Engine(settings).kernel(adding_unit("1"), "unit", Target::cpu()), 1), 2);
}

TEST(CompilerTime, ACompilerThatHangsAtItsVersionIsAnErrorToo) {
  TemporaryFolder folder;
  Settings settings = settings_with_cache("");
  settings.cxx = script(folder / "c++", "sleep 60");
  settings.compile_seconds = 1;
  HostCompiler compiler(settings);
  EXPECT_NE(error_of([&] { compiler.identity(Target::cpu()); }).find("within 1 s"),
            std::string::npos);
  EXPECT_THROW(compiler.identity(Target::cpu()), ToolchainError) << "and not one of the arguments";
}

}  // namespace
}  // namespace jitstep::jit
