#include "jitstep/jit/settings.h"

#include <map>
#include <optional>

#include "jit/base/environment.h"
#include "jit/base/log.h"
#include "jit/compiler/isa.h"
#include "jit/fixtures.h"
#include "jitstep/jit/target.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

// Sets variables for one test and restores the old values.
class Environment {
 public:
  void set(const std::string& name, const char* value) {
    if (const char* old = std::getenv(name.c_str())) {
      before_.emplace(name, old);
    } else {
      before_.emplace(name, std::nullopt);
    }
    value ? setenv(name.c_str(), value, 1) : unsetenv(name.c_str());
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST(Settings, TheCacheFolderComesFromTheFirstVariableThatIsSet) {
  Environment environment;
  environment.set("JITSTEP_CACHE_DIR", "/own");
  environment.set("XDG_CACHE_HOME", "/xdg");
  environment.set("HOME", "/home/u");
  EXPECT_EQ(Settings::from_environment().cache_dir, "/own");
  environment.set("JITSTEP_CACHE_DIR", "");
  EXPECT_EQ(Settings::from_environment().cache_dir, "/xdg/jitstep");
  environment.set("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(Settings::from_environment().cache_dir, "/home/u/.cache/jitstep");
  environment.set("HOME", nullptr);
  EXPECT_EQ(Settings::from_environment().cache_dir, "");
}

TEST(Settings, EveryVariableIsRead) {
  Environment environment;
  testing::WarningCollector warnings;
  environment.set("JITSTEP_CACHE_READONLY", "/shared");
  environment.set("JITSTEP_TEMPLATES", "/templates");
  environment.set("JITSTEP_CXX", "/opt/my compiler/g++");
  environment.set("JITSTEP_NVRTC", "/opt/nvrtc");
  environment.set("JITSTEP_LOG", "debug");
  environment.set("JITSTEP_COMPILE_SECONDS", "7");
  environment.set("JITSTEP_CHECK", "1");
  environment.set("JITSTEP_TUNE", "1");
  environment.set("WORLD_SIZE", "8");
  environment.set("TMPDIR", "/scratch");
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.cache_readonly, "/shared");
  EXPECT_EQ(settings.templates, "/templates");
  EXPECT_EQ(settings.cxx, "/opt/my compiler/g++");
  EXPECT_EQ(settings.nvrtc, "/opt/nvrtc");
  EXPECT_TRUE(settings.check);
  EXPECT_TRUE(settings.tune);
  EXPECT_EQ(settings.ranks, 8);
  for (const char* wrong : {"", "0", "-2", "many"}) {
    environment.set("WORLD_SIZE", wrong);
    EXPECT_EQ(Settings::from_environment().ranks, 1) << wrong;
  }
  EXPECT_EQ(settings.log, LogLevel::debug);
  EXPECT_EQ(settings.compile_seconds, 7);
  EXPECT_EQ(settings.tmpdir, "/scratch");
}

TEST(Settings, HaveThePathsOfTheWorkingFolderInWhichTheyWereRead) {
  Environment environment;
  testing::WarningCollector warnings;
  for (const char* name :
       {"JITSTEP_CACHE_DIR", "JITSTEP_CACHE_READONLY", "JITSTEP_TEMPLATES", "JITSTEP_OVERRIDE",
        "JITSTEP_DUMP", "JITSTEP_CXX", "JITSTEP_NVRTC", "VIRTUAL_ENV", "TMPDIR"})
    environment.set(name, "some/where");
  const Settings read = Settings::from_environment();
  Settings of_program;
  of_program.packaged_kernels = of_program.packaged_cxx = "some/where";
  of_program.nvrtc_search = {"some/where"};
  const Settings made = with_absolute_paths(of_program);
  const std::string expected = (testing::fs::current_path() / "some/where").string();
  for (const std::string& path :
       {read.cache_dir, read.cache_readonly, read.templates, read.override_folder, read.dump_folder,
        read.cxx, read.nvrtc, read.python_environment, read.tmpdir, made.packaged_kernels,
        made.packaged_cxx, made.nvrtc_search.at(0)})
    EXPECT_EQ(path, expected);
}

TEST(Settings, IgnoreASlashAtTheEndOfAFolder) {
  Environment environment;
  environment.set("JITSTEP_CACHE_DIR", "/some/where//");
  environment.set("JITSTEP_CACHE_READONLY", "/some/where/./");
  environment.set("JITSTEP_DUMP", "/");
  const Settings read = Settings::from_environment();
  EXPECT_EQ(read.cache_dir, "/some/where");
  EXPECT_EQ(read.cache_readonly, "/some/where");
  EXPECT_EQ(read.dump_folder, "/");
}

TEST(Settings, KeepTheNamesOfProgramsAndLibrariesThatAreSearched) {
  Environment environment;
  environment.set("JITSTEP_CXX", "g++-12");
  environment.set("JITSTEP_NVRTC", "libnvrtc.so.12");
  EXPECT_EQ(Settings::from_environment().cxx, "g++-12");
  EXPECT_EQ(Settings::from_environment().nvrtc, "libnvrtc.so.12");
  testing::TemporaryFolder folder;
  EXPECT_EQ(jitstep::testing::in_child([&]() -> std::string {
              testing::fs::create_directory(folder / "lib");
              testing::fs::current_path(folder.path());
              ::setenv("JITSTEP_NVRTC", "lib", 1);
              const std::string found = Settings::from_environment().nvrtc;
              return found == folder / "lib" ? "" : found;
            }),
            "")
      << "a folder";
}

TEST(Settings, AFolderOfSourcesThatIsMissingIsAWarning) {
  Environment environment;
  testing::WarningCollector warnings;
  testing::TemporaryFolder folder;
  for (const char* name : {"JITSTEP_TEMPLATES", "JITSTEP_OVERRIDE"}) {
    environment.set(name, folder.path().c_str());
    Settings::from_environment();
    EXPECT_TRUE(warnings.messages().empty());
  }
  environment.set("JITSTEP_TEMPLATES", (folder / "none").c_str());
  environment.set("JITSTEP_OVERRIDE", (folder / "gone").c_str());
  Settings::from_environment();
  const std::vector<std::string> expected = {
      "cannot use JITSTEP_TEMPLATES=" + (folder / "none") +
          ": it is not a folder. Using the built-in templates.",
      "cannot use JITSTEP_OVERRIDE=" + (folder / "gone") +
          ": it is not a folder. Using generated sources."};
  EXPECT_EQ(warnings.messages(), expected);
}

TEST(Settings, AnInvalidValueIsOneWarningHoweverOftenItIsRead) {
  Environment environment;
  testing::WarningCollector warnings;
  environment.set("JITSTEP_CPU", "x86-64-v6");
  environment.set("JITSTEP_LOG", "off");
  Settings::from_environment();
  EXPECT_TRUE(warnings.messages().empty()) << "the log is off";
  environment.set("JITSTEP_LOG", nullptr);
  for (int i = 0; i < 3; ++i) Settings::from_environment();
  EXPECT_EQ(warnings.messages().size(), 1u);
}

TEST(Settings, ASwitchIsOnForFourWordsOnly) {
  Environment environment;
  testing::WarningCollector warnings;
  const auto are = [&](const char* word) {
    environment.set("JITSTEP_CHECK", word);
    environment.set("JITSTEP_TUNE", word);
    const Settings read = Settings::from_environment();
    EXPECT_EQ(read.check, read.tune) << word;
    return read.tune;
  };
  for (const char* on : {"1", "on", "true", "yes"}) EXPECT_TRUE(are(on)) << on;
  for (const char* off : {"", "0", "off", "false", "no"}) EXPECT_FALSE(are(off)) << off;
  EXPECT_TRUE(warnings.messages().empty());
  EXPECT_FALSE(are("perhaps"));
  EXPECT_EQ(warnings.messages().size(), 2u);
}

// Shells replace ~ in assignments, but not services and containers in their files of variables.
TEST(Settings, AFolderBelowATildeIsAWarningAndIsNotUsed) {
  Environment environment;
  testing::WarningCollector warnings;
  environment.set("XDG_CACHE_HOME", "/xdg");
  for (const char* name : {"JITSTEP_CACHE_DIR", "JITSTEP_CACHE_READONLY", "JITSTEP_DUMP"})
    environment.set(name, "~/kernels");
  const Settings read = Settings::from_environment();
  EXPECT_EQ(read.cache_dir, "/xdg/jitstep");
  EXPECT_EQ(read.cache_readonly + read.dump_folder, "");
  EXPECT_EQ(warnings.messages().size(), 3u);
}

TEST(Settings, ATimeLimitThatIsNotANumberIsAWarning) {
  for (const char* wrong : {"5 minutes", "-1", "1e3", "99999999999999999999"}) {
    Environment environment;
    testing::WarningCollector warnings;
    environment.set("JITSTEP_COMPILE_SECONDS", wrong);
    EXPECT_EQ(Settings::from_environment().compile_seconds, 300) << wrong;
    EXPECT_EQ(warnings.messages().size(), 1u) << wrong;
  }
}

TEST(Settings, TheCompilerGetsOnlyTheVariablesItNeeds) {
  Environment environment;
  const std::map<std::string, std::string> passed_on = {
      {"HOME", "/home/u"},           {"LD_LIBRARY_PATH", "/opt/lib"},
      {"XDG_CACHE_HOME", "/caches"}, {"XDG_CONFIG_HOME", "/config"},
      {"CCACHE_DIR", "/ccache"},     {"SCCACHE_DIR", "/sccache"},
      {"DISTCC_HOSTS", "one two"},   {"ICECC_VERSION", "tar"}};
  for (const auto& [name, value] : passed_on) environment.set(name, value.c_str());
  for (const char* name : {"CPATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "DEPENDENCIES_OUTPUT",
                           "CCC_OVERRIDE_OPTIONS", "LIBRARY_PATH", "LANG"})
    environment.set(name, "/elsewhere");
  const auto found = Settings::from_environment().compiler_variables;
  std::map<std::string, std::string> known(found.begin(), found.end());
  std::erase_if(known, [&](const auto& variable) { return !passed_on.contains(variable.first); });
  EXPECT_EQ(known, passed_on);
  for (const auto& [name, value] : found) EXPECT_NE(value, "/elsewhere") << name;
}

TEST(Settings, AnUnknownLogLevelIsAWarning) {
  Environment environment;
  testing::WarningCollector warnings;
  environment.set("JITSTEP_LOG", "loud");
  EXPECT_EQ(Settings::from_environment().log, LogLevel::warn);
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_NE(warnings.messages()[0].find("'loud'"), std::string::npos);
}

TEST(Log, OffSilencesWarnings) {
  testing::WarningCollector warnings;
  warn(LogLevel::off, "not heard");
  warn(LogLevel::warn, "heard");
  EXPECT_EQ(warnings.messages(), std::vector<std::string>{"heard"});
}

TEST(Log, AHandlerThatThrowsDoesNotInterruptTheCaller) {
  const WarningHandler before =
      set_warning_handler([](const std::string&) { throw std::runtime_error("no warnings"); });
  ::testing::internal::CaptureStderr();
  EXPECT_NO_THROW(warn(LogLevel::warn, "the disk is full"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "jitstep: warning: the disk is full\n");
  set_warning_handler(before);
}

TEST(Target, IsPrintedAndParsedBothWays) {
  for (const Target& target :
       {Target::cpu(), Target::emulated(), Target::cuda(80), Target::cuda(120)}) {
    EXPECT_EQ(parse_target(to_string(target)), target);
  }
  EXPECT_EQ(to_string(Target::cuda(90)), "sm_90");
  for (const char* bad : {"", "sm_", "sm_x", "sm_90a", "sm_5", "gpu", "CPU"}) {
    EXPECT_THROW(parse_target(bad), Error) << bad;
  }
}

constexpr char kHaswell[] =
    "\nflags\t: fpu vme cx8 cmov mmx fxsr sse sse2 lm pni ssse3 cx16 sse4_1 sse4_2 movbe popcnt "
    "xsave avx f16c "
    "fma abm lahf_lm bmi1 avx2 bmi2\n";

TEST(Isa, ABaselineNeedsItsFeaturesAndThoseOfAllLowerLevels) {
  for (const char* level : {"x86-64", "x86-64-v2", "x86-64-v3"}) {
    EXPECT_EQ(machine_lacks(str_cat("gcc\nisa: -mtune=generic -march=", level, "\n"), kHaswell), "")
        << level;
    EXPECT_EQ(machine_lacks(str_cat("clang\nisa: ", level, "\n"), kHaswell), "") << level;
  }
  EXPECT_EQ(machine_lacks("gcc\nisa: -mtune=generic -march=x86-64-v4\n", kHaswell),
            "avx512bw avx512cd avx512dq avx512f avx512vl");
  EXPECT_EQ(machine_lacks("gcc\nisa: -march=x86-64-v3\n",
                          "\nflags : lm fpu cmov cx8 fxsr mmx sse sse2 avx2\n"),
            "abm avx bmi1 bmi2 cx16 f16c ...");
  EXPECT_NE(machine_lacks("gcc\nisa: -march=x86-64-v9\n", kHaswell), "") << "in doubt, no";
  EXPECT_LT(baseline_level("x86-64-v2"), baseline_level("x86-64-v3"));
  EXPECT_EQ(baseline_level("native"), 0);
}

TEST(Settings, TheProcessorToCompileForMustBeKnown) {
  Environment environment;
  testing::WarningCollector warnings;
  for (const char* cpu : {"native", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", ""}) {
    environment.set("JITSTEP_CPU", cpu);
    EXPECT_EQ(Settings::from_environment().cpu, cpu);
  }
  EXPECT_TRUE(warnings.messages().empty());
  environment.set("JITSTEP_CPU", "x86-64-v5");
  EXPECT_EQ(Settings::from_environment().cpu, "");
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_NE(warnings.messages()[0].find("'x86-64-v5'"), std::string::npos);
}

TEST(Isa, CodeRunsIfTheCpuListsEveryFeature) {
  const auto runs = [](const char* identity, const std::string& cpuinfo) {
    return machine_lacks(identity, cpuinfo).empty();
  };
  const std::string cpuinfo =
      "processor\t: 0\nflags\t\t: fpu sse2 pni sse4_1 avx2 bmi1 abm\nx: y\n";
  EXPECT_TRUE(
      runs("gcc 12\nisa: -march=znver3 -msse3 -msse4.1 -mavx2 -mno-avx512f -mlzcnt\n", cpuinfo));
  EXPECT_TRUE(runs("gcc 12\nisa: -mbmi -mshstk -mtune=znver3 l2-cache-size=512\no", cpuinfo));
  EXPECT_FALSE(runs("gcc 12\nisa: -msse3 -mavx512f\n", cpuinfo));
  EXPECT_TRUE(runs("clang 14\nisa: znver3 +sse2 +bmi -mwaitx -movdiri +shstk\n", cpuinfo));
  EXPECT_FALSE(runs("clang 14\nisa: znver3 +sse2 +avx512f\n", cpuinfo));
  EXPECT_TRUE(runs("clang 22\nisa: x +sse2 +fast-gather +vzeroupper +slow-lea\n", cpuinfo))
      << "zig lists what is fast, too";
  EXPECT_FALSE(runs("gcc 12\nisa: -msse3\n", "Features : asimd"));
  EXPECT_FALSE(runs("gcc 12\nisa: armv8-a+crypto\n", cpuinfo)) << "in doubt, no";
}

}  // namespace
}  // namespace jitstep::jit
