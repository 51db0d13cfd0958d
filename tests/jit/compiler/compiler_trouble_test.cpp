// Failures of the host compiler that are not errors in the source it compiles.
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "jit/fixtures.h"
#include "jitstep/jit/error.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using namespace jitstep::testing;
using namespace testing;

// Compiles, fails with a message that names the work folder, and compiles again once `fix` has removed the cause.
std::string failure_that_is_forgotten(Engine& engine, const std::string& work,
                                      const std::string& expected,
                                      const std::function<void()>& fix) {
  std::string message;
  try {
    engine.kernel(adding_unit("1"), "unit", Target::cpu());
    return "the compile did not fail";
  } catch (const CompileError& error) {
    return std::string("reported as an error in the source: ") + error.what();
  } catch (const Error& error) {
    message = error.what();
  }
  for (const std::string& part : {work, expected}) {
    if (message.find(part) == std::string::npos) return str_cat("no ", part, " in: ", message);
  }
  fix();
  const float sum = add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1);
  return sum == 2 ? "" : "a wrong number";
}

TEST(CompilerTrouble, AFullDiskIsAnErrorThatNamesTheFolderAndIsNotRemembered) {
  TemporaryFolder folder, work;
  const std::string report = on_a_small_disk(work.path(), 16, [&]() -> std::string {
    Settings settings = settings_with_cache(folder.path());
    settings.tmpdir = work.path();
    std::ofstream(work / "ballast") << std::string(16000, 'b');
    Engine engine(settings);
    return failure_that_is_forgotten(engine, work.path(), "KiB", [&] {
      ::mount(nullptr, work.path().c_str(), nullptr, MS_REMOUNT, "size=4m");
    });
  });
  if (report == kNotAllowed)
    GTEST_SKIP() << "no mounts here; a compiler that says so stands in for it";
  EXPECT_EQ(report, "");
}

TEST(CompilerTrouble, AFileSizeLimitIsNotAnErrorInTheSource) {
  TemporaryFolder folder, work;
  EXPECT_EQ(in_child([&]() -> std::string {
              Settings settings = settings_with_cache(folder.path());
              settings.tmpdir = work.path();
              Engine engine(settings);
              engine.build(adding_unit("0"), "unit",
                           Target::cpu());  // determines the compiler's identity first
              rlimit limit{};
              ::getrlimit(RLIMIT_FSIZE, &limit);
              const rlim_t before = limit.rlim_cur;
              limit.rlim_cur = 4000;
              ::setrlimit(RLIMIT_FSIZE, &limit);
              return failure_that_is_forgotten(engine, work.path(), "ulimit -f", [&] {
                limit.rlim_cur = before;
                ::setrlimit(RLIMIT_FSIZE, &limit);
              });
            }),
            "");
}

TEST(CompilerTrouble, AMissingCompilerHasAnErrorOfItsOwn) {
  TemporaryFolder folder, empty, baselines;
  for (const std::string& readonly : {std::string(), baselines.path()}) {
    Settings settings = settings_of_this_computer(folder.path());
    settings.path = empty.path();
    settings.cache_readonly = readonly;
    Engine engine(settings);
    EXPECT_THROW(engine.kernel(adding_unit("1"), "unit", Target::cpu()), MissingCompilerError);
  }
}

// A compiler with the identity of the real one, which then fails with a message.
void write_failing_compiler(const std::string& path, const std::string& message) {
  testing::write_file(
      path, str_cat("#!/bin/sh\ncase \" $* \" in *\" -E \"*) exec c++ \"$@\";; esac\n",
                    "if [ -e \"$0.fixed\" ]; then exec c++ \"$@\"; fi\n", "cat >&2 <<'END'\n",
                    message, "\nEND\nexit 1\n"));
  ::chmod(path.c_str(), 0700);
}

TEST(CompilerTrouble, ExhaustedResourcesAreNotRememberedAsErrorsInTheSource) {
  int number = 0;
  for (const char* message :
       {"/tmp/x.s: No space left on device",
        "/usr/bin/ld: final link failed: No space left on device",
        "{standard input}: Fatal error: can't close kernel.o: Disk quota exceeded",
        "cc1plus: fatal error: error writing to -: Read-only file system",
        "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
        "c++: fatal error: Killed signal terminated program cc1plus",
        "collect2: fatal error: ld terminated with signal 25 [File size limit exceeded]",
        "error: unable to open output file: 'Too many open files'"}) {
    TemporaryFolder folder, work;
    Settings settings = settings_with_cache(folder / "cache");
    settings.tmpdir = work.path();
    settings.cxx = folder / str_cat("c++", number++);
    write_failing_compiler(settings.cxx, message);
    Engine engine(settings);
    EXPECT_EQ(failure_that_is_forgotten(engine, work.path(), message,
                                        [&] { testing::write_file(settings.cxx + ".fixed", ""); }),
              "");
  }
}

TEST(CompilerTrouble, ExhaustedResourcesAreReportedWithAFix) {
  int number = 0;
  for (const auto& [message, help] : std::initializer_list<std::pair<const char*, const char*>>{
           {"error: unable to open output file: 'Too many open files'", "ulimit -n"},
           {"cc1plus: out of memory allocating 65536 bytes", "Free memory"},
           {"collect2: fatal error: ld terminated with signal 9 [Killed]", "Free memory"},
           {"collect2: fatal error: ld terminated with signal 11 [Segmentation fault]",
            "JITSTEP_CXX"},
           {"collect2: ld terminated with signal 25 [File size limit exceeded]", "ulimit -f"},
           {"/tmp/x.s: No space left on device", "Free disk space there"},
           {"cc1plus: fatal error: error writing to -: Read-only file system", "TMPDIR"}}) {
    TemporaryFolder folder, work;
    Settings settings = settings_with_cache(folder / "cache");
    settings.tmpdir = work.path();
    settings.cxx = folder / str_cat("c++", number++);
    write_failing_compiler(settings.cxx, message);
    try {
      Engine(settings).build(adding_unit("1"), "unit", Target::cpu());
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(help), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(work.path()), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("TMPDIR") != std::string::npos, number > 5);
    }
  }
}

TEST(CompilerTrouble, AnErrorInASourceThatMentionsDisksIsStillAnErrorInTheSource) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  const std::string unit = "static_assert(false, \"No space left on device\");\n";
  for (int round = 0; round < 2; ++round) {
    EXPECT_THROW(engine.kernel(unit, "unit", Target::cpu()), CompileError);
  }
  EXPECT_EQ(engine.statistics().failed, 1u) << "and the engine remembers it";
}

// ---- its messages -------------------------------------------------------------------------------

TEST(CompilerTrouble, AFloodOfErrorsIsCutInTheMiddleWithoutUsingMemoryForIt) {
  TemporaryFolder folder;
  Settings settings = settings_with_cache(folder / "cache");
  settings.cxx = folder / "c++";
  testing::write_file(
      settings.cxx,
      "#!/bin/sh\ncase \" $* \" in *\" -E \"*) exec c++ \"$@\";; esac\n"
      "echo 'unit:1:1: error: the first' >&2\nyes 'unit:1:1: error: more' | head -c 300000000 >&2\n"
      "echo >&2\necho 'unit:1:1: error: the last' >&2\nexit 1\n");
  ::chmod(settings.cxx.c_str(), 0700);
  EXPECT_EQ(in_child([&]() -> std::string {
              Engine engine(settings);
              rusage before{}, after{};
              ::getrusage(RUSAGE_SELF, &before);
              std::string message, log;
              try {
                engine.kernel(adding_unit("1"), "unit", Target::cpu());
              } catch (const CompileError& error) {
                message = error.what(), log = error.log();
              }
              ::getrusage(RUSAGE_SELF, &after);
              if (message.find("error: the first") == std::string::npos)
                return message.substr(0, 1000);
              if (log.find("error: the last") == std::string::npos) return "the last is missing";
              if (message.size() > 4000) return str_cat("a message of ", message.size(), " bytes");
              if (log.size() > 400000) return str_cat("a log of ", log.size(), " bytes");
              return after.ru_maxrss - before.ru_maxrss < 50000 ? "" : "it used memory";
            }),
            "");
}

// ---- its output ---------------------------------------------------------------------------------

// A compiler that succeeds, but whose output `spoil` then damages. "$out" is the binary.
void write_spoiling_compiler(const std::string& path, const std::string& spoil) {
  testing::write_file(
      path, str_cat("#!/bin/sh\ncase \" $* \" in *\" -E \"*) exec c++ \"$@\";; esac\nc++ \"$@\"\n",
                    "if [ -e \"$0.fixed\" ]; then exit 0; fi\n",
                    "for word; do [ \"$before\" = -o ] && out=$word; before=$word; done\n", spoil,
                    "\nexit 0\n"));
  ::chmod(path.c_str(), 0700);
}

TEST(CompilerTrouble, ABinaryThatDoesNotLoadIsNeverCached) {
  for (const char* spoil : {"head -c 4000 \"$out\" > \"$out.half\"; mv \"$out.half\" \"$out\"",
                            "head -c 100 \"$out\" > \"$out.half\"; mv \"$out.half\" \"$out\"",
                            "echo 'int x = 1;' | c++ -x c++ -shared -o \"$out\" -",
                            "echo 'void none(); extern \"C\" "
                            "__attribute__((visibility(\"default\"))) void add() { none(); }' | "
                            "c++ -x c++ -shared -fPIC -o \"$out\" -"}) {
    SCOPED_TRACE(spoil);
    TemporaryFolder folder;
    Settings settings = settings_with_cache(folder / "cache");
    settings.cxx = folder / "c++";
    write_spoiling_compiler(settings.cxx, spoil);
    EXPECT_EQ(in_child([&]() -> std::string {  // which would end in SIGBUS
                Engine engine(settings);
                for (const bool loaded : {true, false}) {
                  try {
                    if (loaded)
                      engine.kernel(adding_unit("1"), "unit", Target::cpu());
                    else
                      engine.build(adding_unit("1"), "unit", Target::cpu());
                    return "it was loaded";
                  } catch (const CompileError& error) {
                    return str_cat("reported as an error in the source: ", error.what());
                  } catch (const Error& error) {
                    if (std::string(error.what()).find("unit") == std::string::npos)
                      return error.what();
                  }
                }
                if (engine.statistics().failed != 2 || engine.statistics().compiled != 0)
                  return "miscounted";
                if (!files_below(settings.cache_dir).empty()) return "it was published";
                testing::write_file(settings.cxx + ".fixed", "");
                return add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1) == 2
                           ? ""
                           : "a wrong number";
              }),
              "");
  }
}

}  // namespace
}  // namespace jitstep::jit
