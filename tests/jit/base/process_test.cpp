#include "jit/base/process.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "jit/fixtures.h"
#include "jitstep/jit/error.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

namespace fs = testing::fs;
using Clock = std::chrono::steady_clock;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

TEST(Process, InputAndOutputOfAnySizePass) {
  const std::string input(3 << 20, 'x');
  const Finished run = run_program({"/bin/cat"}, input, {});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.output, input);
}

TEST(Process, StatusSignalAndEnvironmentAreSeen) {
  EXPECT_EQ(run_program({"/bin/sh", "-c", "exit 3"}, "", {}).status, 3);
  EXPECT_EQ(run_program({"/bin/sh", "-c", "kill -9 $$"}, "", {}).status, 128 + 9);
  const std::vector<std::string> echo = {"/bin/sh", "-c", "echo \"$A-${HOME-none}\""};
  EXPECT_EQ(run_program(echo, "", {{"A", "b c"}}).output, "b c-none\n");
  const Variables changed = own_variables({{"A", "b c"}, {"HOME", ""}});
  EXPECT_EQ(run_program(echo, "", changed).output, "b c-none\n");
  EXPECT_EQ(changed.size(), own_variables({{"A", ""}, {"HOME", ""}}).size() + 1);
  EXPECT_THROW(run_program({"/no/such/program"}, "", {}), Error);
}

TEST(Process, AProgramPastItsTimeLimitIsKilledWithItsChildren) {
  testing::TemporaryFolder folder;
  const std::string mark = folder / "mark";
  const auto start = std::chrono::steady_clock::now();
  const Finished run =
      run_program({"/bin/sh", "-c", "echo begun; (sleep 3; echo > '" + mark + "') & sleep 60"}, "",
                  own_variables(), {std::chrono::seconds(1)});
  EXPECT_TRUE(run.stopped);
  EXPECT_EQ(run.status, 128 + SIGKILL);
  EXPECT_EQ(run.output, "begun\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  std::this_thread::sleep_for(std::chrono::seconds(4));
  EXPECT_FALSE(fs::exists(mark)) << "a child of the child lives on";
  EXPECT_FALSE(
      run_program({"/bin/sh", "-c", "exit 3"}, "", {}, {std::chrono::seconds(60)}).stopped);
  EXPECT_EQ(run_program({"/bin/sh", "-c", "exit 3"}, "", {}, {std::chrono::seconds(60)}).status, 3);
}

// ---- child processes end with this process ------------------------------------------------------

// A zombie counts as ended, even if nobody reaps it.
bool runs(pid_t process) {
  std::ifstream status(str_cat("/proc/", process, "/stat"));
  std::string line;
  std::getline(status, line);
  const std::size_t name_end = line.rfind(") ");
  return name_end != line.npos && line[name_end + 2] != 'Z' && line[name_end + 2] != 'X';
}

template <class Condition>
bool within_seconds(int seconds, const Condition& condition) {
  for (const auto end = Clock::now() + std::chrono::seconds(seconds); Clock::now() < end;
       std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    if (condition()) return true;
  }
  return condition();
}

std::vector<pid_t> numbers_in(const std::string& file) {
  std::ifstream in(file);
  std::vector<pid_t> numbers;
  for (pid_t number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

// The program has started another one. Without the guard, both would run forever.
TEST(Process, ChildrenEndWithTheHostHoweverItEnds) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGKILL}) {
    TemporaryFolder folder;
    const std::string file = folder / "processes";
    const pid_t host = ::fork();
    if (host == 0) {
      ::signal(signal, SIG_DFL);
      // A thread other than the first starts the program, because engines compile in their own threads.
      std::thread([&] {
        run_program({"/bin/sh", "-c",
                     "trap '' HUP TERM INT; sleep 1000 & echo $$ $! > '" + file + "'; wait"},
                    "", own_variables());
      }).join();
      ::_exit(0);
    }
    const bool started = within_seconds(60, [&] { return numbers_in(file).size() == 2; });
    ASSERT_TRUE(started);
    for (const pid_t process : numbers_in(file)) EXPECT_TRUE(runs(process)) << process;
    ::kill(host, signal);
    int status = 0;
    ::waitpid(host, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "signal " << signal;
    for (const pid_t process : numbers_in(file))
      EXPECT_TRUE(within_seconds(30, [&] { return !runs(process); })) << "signal " << signal;
  }
}

// The forked child of the host keeps running, as a data loader's worker may.
TEST(Process, AForkedChildOfTheHostDoesNotKeepProgramsRunning) {
  TemporaryFolder folder;
  const std::string file = folder / "processes";
  const pid_t host = ::fork();
  if (host == 0) {
    std::thread([&] {
      run_program({"/bin/sh", "-c", "sleep 1000 & echo $$ $! > '" + file + "'; wait"}, "",
                  own_variables());
    }).detach();
    within_seconds(60, [&] { return numbers_in(file).size() == 2; });
    const pid_t child = ::fork();
    if (child == 0) ::pause();
    std::ofstream(file + ".child") << child << "\n";
    ::pause();
  }
  ASSERT_TRUE(within_seconds(60, [&] { return numbers_in(file + ".child").size() == 1; }));
  ::kill(host, SIGKILL);
  ::waitpid(host, nullptr, 0);
  for (const pid_t process : numbers_in(file))
    EXPECT_TRUE(within_seconds(30, [&] { return !runs(process); })) << process;
  ::kill(numbers_in(file + ".child").at(0), SIGKILL);
}

TEST(Process, AThreadThatEndsDoesNotKillProgramsOfOtherThreads) {
  std::string output;
  std::thread other([&] {
    output = run_program({"/bin/sh", "-c", "sleep 1; echo done"}, "", own_variables()).output;
  });
  std::thread([&] { run_program({"/bin/sh", "-c", "exit 0"}, "", {}); }).join();
  other.join();
  EXPECT_EQ(output, "done\n");
}

TEST(Process, NoChildIsLeftBehind) {
  EXPECT_EQ(
      jitstep::testing::in_child([]() -> std::string {
        run_program({"/bin/sh", "-c", "exit 0"}, "", {});
        run_program({"/bin/sh", "-c", "sleep 60"}, "", own_variables(), {std::chrono::seconds(1)});
        return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD ? "" : "there is a child";
      }),
      "");
}

TEST(Process, DoesNotWaitForBackgroundProcesses) {
  const auto start = Clock::now();
  const Finished run = run_program({"/bin/sh", "-c", "sleep 20 & echo now"}, "", own_variables());
  EXPECT_EQ(run.output, "now\n");
  EXPECT_EQ(run.status, 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(15));
}

// The host may have signal handlers, and blocked or ignored signals. The program inherits none of them.
TEST(Process, ProgramsStartWithDefaultSignalHandling) {
  EXPECT_EQ(jitstep::testing::in_child([]() -> std::string {
              ::signal(SIGTERM, SIG_IGN);
              ::signal(SIGUSR1, [](int) {});
              sigset_t all;
              sigfillset(&all);
              ::sigprocmask(SIG_SETMASK, &all, nullptr);
              for (const char* name : {"TERM", "USR1"}) {
                const Finished run =
                    run_program({"/bin/sh", "-c", str_cat("kill -", name, " $$; exit 3")}, "", {});
                if (run.status == 3) return str_cat("deaf for ", name);
              }
              sigset_t now;
              ::sigprocmask(SIG_SETMASK, nullptr, &now);
              return ::sigismember(&now, SIGUSR2) == 1 ? "" : "the host's mask has changed";
            }),
            "");
}

TEST(Process, OnlyAbsoluteFoldersOfPathAreSearched) {
  TemporaryFolder folder;
  const auto make_program = [](const std::string& path) {
    testing::write_file(path, "#!/bin/sh\n");
    fs::permissions(path, fs::perms::owner_all);
  };
  make_program(folder / "tool");
  make_program(folder / "bin/tool");
  EXPECT_EQ(find_program("tool", "/none:" + (folder / "bin")), folder / "bin/tool");
  EXPECT_EQ(find_program("tool", "/" + folder.path()), "/" + (folder / "tool"));
  EXPECT_EQ(find_program("tool", fs::relative(folder.path()).string()), "");
  const std::string result = jitstep::testing::in_child([&]() -> std::string {
    if (!jitstep::testing::enter_mount_namespace() || ::chroot(folder.path().c_str()) != 0 ||
        ::chdir("/bin") != 0)
      return jitstep::testing::kNotAllowed;
    for (const char* path : {"", ":", "bin", ".", "::/none"})
      if (!find_program("tool", path).empty()) return str_cat("found in \"", path, "\"");
    return find_program("tool", ":/") == "//tool" ? "" : "not found in the root folder";
  });
  if (result == jitstep::testing::kNotAllowed) GTEST_SKIP() << result;
  EXPECT_EQ(result, "");
}

// ---- much output --------------------------------------------------------------------------------

TEST(Process, ALongOutputIsCutInTheMiddleWithoutUsingMemoryForIt) {
  EXPECT_EQ(jitstep::testing::in_child([]() -> std::string {
              rusage before{}, after{};
              ::getrusage(RUSAGE_SELF, &before);
              const Finished run = run_program(
                  {"/bin/sh", "-c", "echo begin; yes '' | head -c 300000000; echo the end; exit 5"},
                  "", own_variables(), {std::chrono::seconds(0), 1000});
              ::getrusage(RUSAGE_SELF, &after);
              if (run.status != 5) return str_cat("status ", run.status);
              if (!run.output.starts_with("begin\n")) return run.output.substr(0, 100);
              if (!run.output.ends_with("\nthe end\n")) return "the end is missing";
              if (run.output.find("299998014 bytes") == std::string::npos) return run.output;
              if (run.output.size() > 2100) return str_cat(run.output.size(), " bytes");
              return after.ru_maxrss - before.ru_maxrss < 20000 ? "" : "it used memory";
            }),
            "");
}

TEST(Process, AShortOutputIsReturnedInFull) {
  for (const std::size_t size : {0, 1, 9, 10, 11, 19, 20, 21, 22}) {
    const std::string input = std::string("0123456789abcdefghijklmnop").substr(0, size);
    const std::string output =
        run_program({"/bin/cat"}, input, {}, {std::chrono::seconds(0), 10}).output;
    if (size <= 20) {
      EXPECT_EQ(output, input);
    } else {
      EXPECT_TRUE(output.starts_with("0123456789\n")) << output;
      EXPECT_TRUE(output.ends_with("\n" + input.substr(size - 10))) << output;
      EXPECT_NE(output.find(str_cat(size - 20, " bytes")), std::string::npos) << output;
    }
  }
}

}  // namespace
}  // namespace jitstep::jit
