#include "jit/compiler/host_compiler.h"

#include <csignal>
#include <map>

#include "jit/base/process.h"
#include "jit/base/scratch.h"
#include "jit/compiler/compiler_identity.h"
#include "jit/compiler/isa.h"
#include "jit/engine/module.h"
#include "jit/fixtures.h"
#include "jit/source/preprocess.h"
#include "jitstep/jit/error.h"
#include "support/compilers.h"

namespace jitstep::jit {
namespace {

using testing::adding_unit;
using testing::error_of;
namespace fs = testing::fs;

TEST(HostCompiler, CompilesASourceToASharedObject) {
  HostCompiler compiler(Settings::from_environment());
  const Binary binary = compiler.compile(adding_unit("2"), "unit", Target::cpu());
  EXPECT_NO_THROW(check_image(binary.image, "unit", Target::cpu()));
  EXPECT_TRUE(binary.resources.empty());
}

TEST(HostCompiler, AnErrorHasTheLogAndTheNumberedLinesOfTheTemplate) {
  TemplateStore store("", false);
  store.add("rules/bad.cuh", "int first;\nint second = nothing;\nint third;\n");
  const std::string preprocessed = preprocess("#include \"rules/bad.cuh\"\n", "unit", store);
  HostCompiler compiler(Settings::from_environment());
  try {
    compiler.compile(preprocessed, "my unit", Target::cpu());
    FAIL() << "nothing was thrown";
  } catch (const CompileError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("my unit"), std::string::npos);
    EXPECT_NE(message.find(">   2 | int second = nothing;"), std::string::npos) << message;
    EXPECT_NE(error.log().find("rules/bad.cuh:2:"), std::string::npos) << error.log();
    EXPECT_NE(error.source().find("    3 | int third;"), std::string::npos) << error.source();
  }
}

TEST(HostCompiler, AnUndefinedFunctionIsACompileErrorForCpuOnly) {
  const std::string unit = "void outside(); extern \"C\" void entry() { outside(); }";
  HostCompiler compiler(Settings::from_environment());
  EXPECT_THROW(compiler.compile(unit, "unit", Target::cpu()), CompileError);
  EXPECT_NO_THROW(compiler.compile(unit, "unit", Target::emulated()));
}

TEST(HostCompiler, AMissingReturnStatementIsACompileError) {
  const std::string unit = "static int f(int x) { if (x) return 1; } int entry() { return f(0); }";
  HostCompiler compiler(Settings::from_environment());
  for (const Target& target : {Target::cpu(), Target::emulated()})
    EXPECT_THROW(compiler.compile(unit, "unit", target), CompileError);
}

TEST(HostCompiler, OnlyTheEmulatedTargetSeesItsMacro) {
  const std::string unit = "#ifndef JITSTEP_EMULATION\n#error none\n#endif\nint x;";
  HostCompiler compiler(Settings::from_environment());
  EXPECT_THROW(compiler.compile(unit, "unit", Target::cpu()), CompileError);
  EXPECT_NO_THROW(compiler.compile(unit, "unit", Target::emulated()));
}

TEST(HostCompiler, AMissingCompilerIsNamedWithAFix) {
  Settings settings;
  settings.path = "/nowhere:/usr/nowhere";
  HostCompiler none(settings);
  const std::string message = error_of([&] { none.identity(Target::cpu()); });
  for (const char* part : {"c++, g++, clang++", "/nowhere", "apt install g++", "JITSTEP_CXX"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

// A stand-in for zig, which passes what `zig cc` understands to c++.
constexpr char kZig[] = R"sh(#!/bin/sh
[ "$1" = cc ] || exit 1
shift
for word; do
  shift
  case "$word" in
    -fno-sanitize=all | -Wno-unknown-warning-option | -target | x86_64-linux-gnu.2.28) ;;
    -march=*-*) echo "unknown CPU: $word" >&2; exit 1 ;;
    -march=*) set -- "$@" "$(echo "$word" | tr _ -)" ;;
    *) set -- "$@" "$word" ;;
  esac
done
[ -d "$ZIG_GLOBAL_CACHE_DIR" ] && [ "$ZIG_LOCAL_CACHE_DIR" = "$TMPDIR" ] || exit 1
exec c++ "$@"
)sh";

TEST(HostCompiler, IsTheOneOfThePackageIfPathHasNone) {
  testing::TemporaryFolder folder;
  testing::write_file(folder / "zig", kZig);
  fs::permissions(folder / "zig", fs::perms::owner_all);
  const Settings before = Settings::from_environment();
  Settings settings = before;
  settings.cxx = "";
  settings.cache_dir = folder / "cache";
  settings.packaged_cxx = folder / "zig";
  EXPECT_NE(HostCompiler(settings).program(), folder / "zig") << "PATH has one";
  settings.path = "/nowhere";
  HostCompiler none(settings);
  EXPECT_EQ(none.program(), folder / "zig");
  settings.path = before.path, settings.cxx = folder / "zig", settings.cpu = "x86-64-v2";
  HostCompiler zig(settings);
  EXPECT_NE(zig.identity(Target::cpu()).find("-march=x86-64-v2"), std::string::npos);
  EXPECT_FALSE(zig.compile(adding_unit("2"), "unit", Target::cpu()).image.empty());
}

TEST(HostCompiler, AMissingPathInJitstepCxxIsNamedWithoutPath) {
  testing::TemporaryFolder folder;
  testing::write_file(folder / "text", "not executable");
  Settings settings;
  settings.path = "/nowhere:/usr/nowhere";
  for (const auto& [file, cause] : {std::pair(folder / "no such/g++", "No such file or directory"),
                                    std::pair(folder / "text", "not an executable file")}) {
    settings.cxx = file;
    HostCompiler compiler(settings);
    const std::string message = error_of([&] { compiler.compile("", "u", Target::cpu()); });
    for (const std::string& part : {std::string("JITSTEP_CXX is ") + file, std::string(cause)})
      EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find(settings.path), std::string::npos) << "PATH was not searched";
  }
}

TEST(HostCompiler, ArgumentsInJitstepCxxAreAnErrorThatShowsAScript) {
  Settings settings = Settings::from_environment();
  for (const char* cxx : {"g++ -O2", "/usr/bin/env g++"}) {
    settings.cxx = cxx;
    HostCompiler compiler(settings);
    const std::string message =
        error_of<MissingCompilerError>([&] { compiler.identity(Target::cpu()); });
    EXPECT_NE(message.find(str_cat("exec ", cxx, " \"$@\"")), message.npos) << message;
  }
}

TEST(HostCompiler, AKilledCompilerIsAnErrorThatSaysSo) {
  testing::TemporaryFolder folder;
  Settings settings = testing::settings_with_cache(folder / "cache");
  settings.cxx = folder / "c++";
  testing::write_file(settings.cxx, "#!/bin/sh\nkill -9 $$\n");
  fs::permissions(settings.cxx, fs::perms::owner_all);
  HostCompiler compiler(settings);
  const std::string message = error_of<ToolchainError>([&] { compiler.identity(Target::cpu()); });
  EXPECT_NE(message.find("signal 9"), message.npos) << message;
}

TEST(HostCompiler, ACompilerOfCIsAnErrorThatNamesTheOneOfCpp) {
  Settings settings = Settings::from_environment();
  settings.cxx = "gcc";
  HostCompiler compiler(settings);
  const std::string unit = "struct A { ~A(); }; A::~A() { throw 1; }";
  const std::string message =
      error_of<ToolchainError>([&] { compiler.compile(unit, "unit", Target::cpu()); });
  EXPECT_NE(message.find("to g++ or clang++"), message.npos) << message;
}

TEST(HostCompiler, AMessageHasTheFirstErrorsOfALongLogAndNamesTheRest) {
  std::string unit;
  for (int i = 0; i < 200; ++i) unit += str_cat("int x", i, " = nothing", i, ";\n");
  for (const std::string& cxx : support::gcc_and_clang()) {
    Settings settings = Settings::from_environment();
    settings.cxx = cxx;
    try {
      HostCompiler(settings).compile(unit, "my unit", Target::cpu());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const CompileError& error) {
      const std::string message = error.what();
      EXPECT_LT(message.size(), 2500u) << message;
      EXPECT_NE(message.find("nothing0"), std::string::npos) << message;
      EXPECT_EQ(message.find("nothing100"), std::string::npos) << message;
      EXPECT_NE(message.find("JITSTEP_DUMP"), std::string::npos) << message;
      EXPECT_NE(error.log().find("nothing100"), std::string::npos) << error.log();
      EXPECT_EQ(error.log().find("unknown warning option"), std::string::npos) << error.log();
    }
  }
}

TEST(HostCompiler, AProgramThatIsNotACompilerIsAnError) {
  Settings settings = Settings::from_environment();
  settings.cxx = "/bin/echo";
  HostCompiler compiler(settings);
  EXPECT_NE(error_of([&] { compiler.identity(Target::cpu()); }).find("not a usable g++ or clang++"),
            std::string::npos);
}

TEST(HostCompiler, PathsWithSpacesWork) {
  testing::TemporaryFolder folder;
  const std::string real = find_program("g++", Settings::from_environment().path);
  ASSERT_FALSE(real.empty()) << "install g++";
  fs::create_directories(folder / "my tools");
  fs::create_symlink(real, folder / "my tools/g ++");
  Settings settings = Settings::from_environment();
  settings.cxx = folder / "my tools/g ++";
  settings.tmpdir = folder / "my tools";
  HostCompiler compiler(settings);
  EXPECT_FALSE(compiler.compile(adding_unit("1"), "unit", Target::cpu()).image.empty());
  EXPECT_TRUE(testing::files_below(folder.path()).size() <= 1) << "no file may remain";
}

TEST(HostCompiler, SkipsAnUnusableTemporaryFolder) {
  Settings settings = Settings::from_environment();
  settings.tmpdir = "/dev/null/none";
  HostCompiler compiler(settings);
  EXPECT_FALSE(compiler.compile(adding_unit("1"), "unit", Target::cpu()).image.empty());
}

TEST(HostCompiler, NoTemporaryFolderAtAllIsAClearError) {
  const std::string message = error_of([] { PrivateFolder({"/dev/null/a", "/proc/none"}); });
  for (const char* part : {"/dev/null/a", "/proc/none", "TMPDIR"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

TEST(HostCompiler, IdentityHoldsVersionAndResolvedIsaButNoPath) {
  HostCompiler compiler(Settings::from_environment());
  const std::string cpu = compiler.identity(Target::cpu());
  EXPECT_NE(cpu.find("version"), std::string::npos) << cpu;
  EXPECT_NE(cpu.find("\nisa: "), std::string::npos) << cpu;
  EXPECT_EQ(cpu.find("/usr"), std::string::npos) << cpu;
  EXPECT_NE(cpu, compiler.identity(Target::emulated()));
  EXPECT_EQ(&compiler.identity(Target::cpu()), &compiler.identity(Target::cpu()));
  EXPECT_EQ(HostCompiler(Settings::from_environment()).identity(Target::cpu()), cpu);
#if defined(__x86_64__)
  EXPECT_EQ(this_machine_lacks(cpu), "") << cpu;
#endif
}

// A key contains the identity. A flag outside the identity would let one compile serve another one's bits.
TEST(HostCompiler, IdentityListsEveryFlagThatDecidesBits) {
  testing::TemporaryFolder folder;
  Settings settings = Settings::from_environment();
  settings.cxx = folder / "c++";
  const std::string seen = folder / "seen";
  testing::write_file(settings.cxx,
                      str_cat("#!/bin/sh\necho \"$@\" >> ", seen, "\nexec c++ \"$@\"\n"));
  fs::permissions(settings.cxx, fs::perms::owner_all);
  for (const Target& target : {Target::cpu(), Target::emulated()}) {
    HostCompiler compiler(settings);
    const std::string identity = compiler.identity(target);
    const std::string options = " " + identity.substr(identity.rfind("options:") + 8) + " ";
    fs::remove(seen);
    compiler.compile(adding_unit("1"), "unit", target);
    std::ifstream words(seen);
    std::size_t flags = 0;
    for (std::string word; words >> word;) {
      if (word == "-o") words >> word, word = "-o";
      const bool decides = word.starts_with("-") && word != "-" && word != "-x" && word != "-o" &&
                           word != "-pipe" && word != "-fdiagnostics-color=never";
      if (decides) ++flags;
      EXPECT_TRUE(!decides || options.find(" " + word + " ") != std::string::npos) << word;
    }
    EXPECT_GE(flags, 9u);
  }
}

TEST(HostCompiler, ReadsClangsReportToo) {
  const std::string report =
      "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu\nInstalledDir: /usr/bin\n"
      " \"/usr/lib/llvm-14/bin/clang\" -cc1 -triple x86_64 -E -target-cpu znver3 -target-feature "
      "+sse2 -target-feature -avx512f -tune-cpu generic -\n";
  EXPECT_EQ(resolved_identity(report),
            "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu\n"
            "isa: znver3 +sse2 -avx512f generic\n"
            "arrived: -cc1 -triple -E -target-cpu -tune-cpu\n");
}

TEST(HostCompiler, WorksInAProcessThatIgnoresItsChildren) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  HostCompiler compiler(Settings::from_environment());
  EXPECT_FALSE(compiler.compile(adding_unit("1"), "unit", Target::cpu()).image.empty());
  EXPECT_THROW(compiler.compile("int x = y;", "unit", Target::cpu()), CompileError);
  std::signal(SIGCHLD, before);
}

// A wrapper that changes the options compiles the same source to other code.
TEST(HostCompiler, IdentityDependsOnTheOptionsOfAWrapper) {
  testing::TemporaryFolder folder;
  Settings settings = Settings::from_environment();
  settings.cxx = folder / "c++";
  std::map<std::string, std::string> wrapper_of;
  for (const char* work :
       {"exec c++ \"$@\"", "exec c++ \"$@\" -fno-tree-vectorize", "exec c++ -O0 \"$@\"",
        "exec c++ \"$@\" -DBY_THE_WRAPPER",
        "case \" $* \" in *\" -E \"*) exec c++ \"$@\";; esac\nexec c++ \"$@\" -O0"}) {
    testing::write_file(settings.cxx, str_cat("#!/bin/sh\n", work, "\n"));
    fs::permissions(settings.cxx, fs::perms::owner_all);
    const std::string identity = HostCompiler(settings).identity(Target::cpu());
    EXPECT_EQ(HostCompiler(settings).identity(Target::cpu()), identity) << work;
    EXPECT_EQ(identity.find(folder.path()), std::string::npos) << identity;
    const auto [other, is_new] = wrapper_of.emplace(identity, work);
    EXPECT_TRUE(is_new) << work << " has the identity of " << other->second;
#if defined(__x86_64__)
    EXPECT_GT(HostCompiler(settings).fitness(identity, Target::cpu()).rank, 0) << identity;
#endif
  }
}

// Loading such a kernel would also make the whole process round subnormal numbers to zero.
TEST(HostCompiler, AnOptionThatChangesResultsIsAnErrorThatNamesIt) {
  testing::TemporaryFolder folder;
  Settings settings = testing::settings_with_cache(folder / "cache");
  settings.cxx = folder / "c++";
  for (const char* option :
       {"-Ofast", "-ffast-math", "-ffp-contract=fast", "-mfpmath=387", "-mfpmath=sse,387"}) {
    testing::write_file(settings.cxx, str_cat("#!/bin/sh\nexec c++ \"$@\" ", option, "\n"));
    fs::permissions(settings.cxx, fs::perms::owner_all);
    Engine engine(settings);
    for (const Target& target : {Target::cpu(), Target::emulated()}) {
      const std::string problem =
          error_of<ToolchainError>([&] { engine.kernel(adding_unit("1"), "unit", target); });
      // clang replaces some options by others.
      EXPECT_NE(problem.find(settings.cxx + ": it adds the option -"), problem.npos) << problem;
      EXPECT_NE(problem.find("Remove the option from the wrapper"), problem.npos) << problem;
    }
  }
}

// The identity contains the options that reach the compiler itself. A wrapper that is a binary has no text to compare.
TEST(HostCompiler, IdentityContainsTheOptionsThatReachTheCompiler) {
  const auto report = [](const std::string& options) {
    return resolved_identity("gcc version 12\n /usr/lib/gcc/12/cc1plus -E -quiet -march=znver3 " +
                             options + " -dumpbase -\n");
  };
  EXPECT_NE(report("-O3"), report("-O2"));
  EXPECT_NE(report("-O3"), report("-O3 -ffast-math"));
  EXPECT_NE(report("-O3"), report("-O3 -DX=1"));
  EXPECT_EQ(report("-fplugin=/home/u/p.so"), report("-fplugin=/home/v/p.so")) << "no paths";
}

}  // namespace
}  // namespace jitstep::jit
