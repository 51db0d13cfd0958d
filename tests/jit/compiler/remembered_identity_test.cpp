#include "jit/compiler/remembered_identity.h"

#include <sched.h>
#include <sys/stat.h>

#include <set>

#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/host_compiler.h"
#include "jit/compiler/isa.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using namespace testing;

// Settings with a script in place of the compiler that counts its runs. It reports the compiler name `name`, and does
// not look like a wrapper.
class RememberedCompiler : public ::testing::Test {
 protected:
  RememberedCompiler() {
    settings.cxx = folder / "c++";
    write("real", "$0");
  }

  void write(const std::string& version, const std::string& name) {
    const std::string answer = "s|^gcc version|gcc version " + version + " of|;s|^COLLECT_GCC=.*|" +
                               "COLLECT_GCC=" + name + "|";
    testing::write_file(settings.cxx,
                        "#!/bin/sh\necho run >> " + runs_file() +
                            "\ncase \" $* \" in *\" -E \"*) c++ \"$@\" 2>&1 | sed \"" + answer +
                            "\";; *) exec c++ \"$@\";; esac\n");
    ::chmod(settings.cxx.c_str(), 0700);
  }

  std::string runs_file() const { return folder / "runs"; }
  std::size_t runs() const {
    std::ifstream in(runs_file());
    std::size_t count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  }

  // Asks as a new process would.
  std::string identity(const Target& target = Target::cpu()) const {
    return HostCompiler(settings).identity(target);
  }

  TemporaryFolder folder;
  Settings settings = settings_with_cache(folder / "cache");
};

TEST_F(RememberedCompiler, AWarmStartRunsNoProgramAtAll) {
  Engine(settings).kernel(adding_unit("1"), "unit", Target::cpu());
  const std::size_t cold = runs();
  EXPECT_EQ(cold, 2u) << "once for its identity, once to compile";
  Engine warm(settings);
  EXPECT_EQ(add_to(*warm.kernel(adding_unit("1"), "unit", Target::cpu()), 1), 2);
  EXPECT_EQ(warm.statistics().from_disk, 1u);
  EXPECT_EQ(runs(), cold);
}

TEST_F(RememberedCompiler, TheRememberedIdentityEqualsTheFirstOne) {
  const std::string original = identity();
  EXPECT_EQ(identity(), original);
  EXPECT_EQ(runs(), 1u);
  settings.cache_dir.clear();
  EXPECT_EQ(identity(), original);
  EXPECT_EQ(runs(), 2u);
}

TEST_F(RememberedCompiler, EachTargetHasItsOwnIdentity) {
  const std::string cpu = identity(), emulated = identity(Target::emulated());
  EXPECT_NE(cpu, emulated);
  EXPECT_EQ(identity(), cpu);
  EXPECT_EQ(identity(Target::emulated()), emulated);
  EXPECT_EQ(runs(), 2u);
}

TEST_F(RememberedCompiler, AChangedCompilerGetsANewIdentity) {
  const std::string before = identity();
  const auto time = fs::last_write_time(settings.cxx);
  const auto size = fs::file_size(settings.cxx);
  write("else", "$0");
  fs::last_write_time(settings.cxx, time);
  ASSERT_EQ(fs::file_size(settings.cxx), size) << "nor by its size and time";
  const std::string after = identity();
  EXPECT_NE(after, before);
  EXPECT_NE(after.find("gcc version else"), std::string::npos) << after;
  EXPECT_EQ(identity(), after);
  EXPECT_EQ(runs(), 2u);
}

TEST_F(RememberedCompiler, AChangedLinkIsAnotherCompiler) {
  const std::string script = settings.cxx, other = folder / "other", link = folder / "link";
  settings.cxx = other;
  write("other", "$0");
  fs::create_symlink(script, link);
  settings.cxx = link;
  const std::string before = identity();
  fs::remove(link);
  fs::create_symlink(other, link);
  EXPECT_NE(identity(), before);
}

// Anything may change which compiler a wrapper runs.
TEST_F(RememberedCompiler, AWrapperRunsEveryTime) {
  write("real", "/usr/bin/c++");
  identity();
  identity();
  EXPECT_EQ(runs(), 2u);
}

TEST_F(RememberedCompiler, ACompilerWithAConfigurationFileRunsEveryTime) {
  for (const char* line : {"Reading specs from /etc/specs", "Configuration file: /etc/clang.cfg"}) {
    write(str_cat("real\\n", line, "\\n"), "$0");
    const std::size_t before = runs();
    identity();
    identity();
    EXPECT_EQ(runs(), before + 2) << line;
  }
}

TEST_F(RememberedCompiler, AnotherEnvironmentRunsTheCompilerAgain) {
  settings.compiler_variables = {{"HOME", "/home/u"}};
  identity();
  settings.compiler_variables = {{"HOME", "/home/v"}};
  identity();
  settings.path += ":/nowhere";
  identity();
  EXPECT_EQ(runs(), 3u);
}

TEST_F(RememberedCompiler, DamagedOrForeignFilesAreIgnored) {
  const std::string original = identity();
  const std::vector<std::string> files = files_below(settings.cache_dir, ".compiler");
  ASSERT_EQ(files.size(), 1u);
  std::ifstream in(files[0]);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  std::string other = whole;
  other[other.size() / 2] ^= 1;
  std::size_t expected_runs = 1;
  for (const std::string& content :
       {other, whole.substr(0, whole.size() - 1), std::string("x"), std::string()}) {
    testing::write_file(files[0], content);
    EXPECT_EQ(identity(), original);
    EXPECT_EQ(runs(), ++expected_runs);
  }
  EXPECT_EQ(identity(), original);
  EXPECT_EQ(runs(), expected_runs) << "it was written again";
  ::chmod(files[0].c_str(), 0666);
  identity();
  EXPECT_EQ(runs(), expected_runs + 1) << "another user could write a wrong identity";
}

TEST_F(RememberedCompiler, AnIdentityThatIsUsedIsKept) {
  identity();
  const std::vector<std::string> files = files_below(settings.cache_dir, ".compiler");
  ASSERT_EQ(files.size(), 1u);
  testing::age(files[0], 40 * 24);
  identity();
  ASSERT_EQ(runs(), 1u);
  sweep_left_overs(settings.cache_dir);
  EXPECT_TRUE(fs::exists(files[0]));
  testing::age(files[0], 40 * 24);
  sweep_left_overs(settings.cache_dir);
  EXPECT_FALSE(fs::exists(files[0]));
  identity();
  EXPECT_EQ(runs(), 2u);
}

TEST(RememberedIdentity, TheHostsCompilerIsRememberedIfTheCpuIsKnown) {
  TemporaryFolder folder;
  const Settings settings = settings_of_this_computer(folder / "cache");
  HostCompiler(settings).identity(Target::cpu());
  const std::string program = find_program("c++", settings.path);
  const bool wrapped = program.find("ccache") != std::string::npos;
  if (this_processor().empty() || wrapped) GTEST_SKIP() << "not x86-64, or a wrapped compiler";
  EXPECT_EQ(files_below(settings.cache_dir, ".compiler").size(), 1u);
}

TEST(RememberedIdentity, AllCoresCountAsOneCpu) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  std::set<std::string> found;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    found.insert(this_processor());
  }
  ::sched_setaffinity(0, sizeof all, &all);
  EXPECT_LE(found.size(), 2u) << "one for each kind of core";
}

}  // namespace
}  // namespace jitstep::jit
