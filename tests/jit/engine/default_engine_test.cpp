// The settings of the engine of a process. Each test runs in its own process, whose default engine is new.
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "jit/fixtures.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
#include "support/child.h"
#include "support/own_process.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using tests::OwnProcess;

bool refuses_settings() {
  bool used = false;
  const std::string message =
      error_of([&] { set_default_settings([&](Settings&) { used = true; }); });
  EXPECT_NE(message.find("the default engine"), std::string::npos) << message;
  return !used && message.find("default settings") != std::string::npos;
}

TEST(DefaultEngine, DISABLED_HasSettingsThatWereChangedBefore) {
  const testing::TemporaryFolder folder;
  std::string cache_of_environment;
  int changes = 0;
  set_default_settings([&](Settings& settings) {
    ++changes;
    cache_of_environment = std::exchange(settings.cache_dir, folder.path());
  });
  EXPECT_EQ(changes, 0) << "the environment is not read before the first use";
  default_engine().build(testing::adding_unit("1"), "unit", Target::cpu());
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(cache_of_environment, std::getenv("JITSTEP_CACHE_DIR"));
  EXPECT_EQ(default_engine().settings().cache_dir, folder.path());
  EXPECT_EQ(default_engine().settings().compile_seconds, 77) << "as in the environment";
  EXPECT_EQ(testing::files_below(folder.path()).size(), 1u);
  EXPECT_TRUE(testing::files_below(cache_of_environment, ".jsk").empty());
  EXPECT_TRUE(refuses_settings());
  EXPECT_EQ(default_engine().settings().cache_dir, folder.path());
}

TEST(DefaultEngine, DISABLED_ThatExistsKeepsItsSettings) {
  EXPECT_EQ(default_engine().settings().cache_dir, std::getenv("JITSTEP_CACHE_DIR"));
  EXPECT_TRUE(refuses_settings());
  EXPECT_EQ(default_engine().settings().cache_dir, std::getenv("JITSTEP_CACHE_DIR"));
}

TEST(DefaultEngine, DISABLED_CallsTheFunctionOnceForSeveralThreads) {
  std::atomic<int> calls = 0;
  set_default_settings([&](Settings&) {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  Engine* engines[4] = {};
  std::vector<std::thread> threads;
  for (Engine*& engine : engines) threads.emplace_back([&engine] { engine = &default_engine(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls, 1);
  for (const Engine* const engine : engines) EXPECT_EQ(engine, &default_engine());
}

// Forks while another thread makes the engine. The child must be able to make its own.
void fork_while_settings_are_read(const std::function<bool()>& uses_the_engine) {
  std::atomic<bool> started = false, may_end = false;
  bool child_forked_by_the_function = false;
  set_default_settings([&](Settings& settings) {
    settings.compile_seconds = 77;
    if (!started) child_forked_by_the_function = jitstep::testing::child_says([] { return true; });
    started = true;
    while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::thread first([&] { uses_the_engine(); });
  while (!started) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(refuses_settings()) << "they are being read";
  EXPECT_TRUE(jitstep::testing::child_says([&] {
    may_end = true;
    return uses_the_engine() && default_engine().settings().compile_seconds == 77;
  }));
  may_end = true;
  first.join();
  EXPECT_TRUE(child_forked_by_the_function);
  EXPECT_EQ(default_engine().settings().compile_seconds, 77);
}

TEST(DefaultEngine, DISABLED_MayForkWhileItReadsItsSettings) {
  fork_while_settings_are_read([] { return !default_engine().settings().path.empty(); });
}

TEST(DefaultEngine, DISABLED_MayForkWhileItsCatalogIsMade) {
  fork_while_settings_are_read([] { return default_catalog().rule("sgd").name == "sgd"; });
}

TEST(DefaultEngine, DISABLED_ExistsWhenItsWarningsAreSent) {
  std::vector<std::string> warnings;
  const Engine* seen = nullptr;
  const auto handler = [&](const std::string& warning) {
    seen = &default_engine();
    warnings.push_back(warning);
  };
  set_warning_handler(handler);
  EXPECT_EQ(&default_engine(), &default_engine());
  set_warning_handler({});
  EXPECT_EQ(seen, &default_engine());
  EXPECT_EQ(warnings.size(), 3u);
}

TEST(DefaultEngine, DISABLED_MustNotBeUsedByItsFunction) {
  set_default_settings([](Settings&) { default_engine(); });
  const std::string message = error_of([] { default_engine(); });
  EXPECT_NE(message.find("the call would wait for itself"), std::string::npos) << message;
  set_default_settings([](Settings& settings) { settings.compile_seconds = 77; });
  EXPECT_EQ(default_engine().settings().compile_seconds, 77);
}

TEST(DefaultEngine, DISABLED_IsNotMadeIfTheFunctionThrows) {
  set_default_settings([](Settings&) { throw std::runtime_error("no package"); });
  EXPECT_THROW(default_engine(), std::runtime_error);
  EXPECT_THROW(default_engine(), std::runtime_error);
  set_default_settings([](Settings& settings) { settings.compile_seconds = 77; });
  EXPECT_EQ(default_engine().settings().compile_seconds, 77);
  EXPECT_TRUE(refuses_settings());
}

TEST(DefaultEngine, CallsTheFunctionOnceForSeveralThreads) {
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_CallsTheFunctionOnceForSeveralThreads"), 0);
}

// With a limit on the time: a lock that is held while the function runs makes fork() wait forever.
TEST(DefaultEngine, MayForkWhileItReadsItsSettings) {
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_MayForkWhileItReadsItsSettings", "timeout 60"),
            0);
}

TEST(DefaultEngine, MayForkWhileItsCatalogIsMade) {
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_MayForkWhileItsCatalogIsMade", "timeout 60"),
            0);
}

TEST(DefaultEngine, ExistsWhenItsWarningsAreSent) {
  const std::string variables =
      "JITSTEP_LOG= JITSTEP_CPU=fast JITSTEP_TEMPLATES=/none JITSTEP_OVERRIDE=/none ";
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_ExistsWhenItsWarningsAreSent",
                             variables + "timeout 60"),
            0);
}

TEST(DefaultEngine, MustNotBeUsedByItsFunction) {
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_MustNotBeUsedByItsFunction", "timeout 60"), 0);
}

TEST(DefaultEngine, IsNotMadeIfTheFunctionThrows) {
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_IsNotMadeIfTheFunctionThrows"), 0);
}

TEST(DefaultEngine, HasSettingsThatWereChangedBefore) {
  const std::string variables = "JITSTEP_COMPILE_SECONDS=77 JITSTEP_CACHE_READONLY=";
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_HasSettingsThatWereChangedBefore", variables),
            0);
}

TEST(DefaultEngine, ThatExistsKeepsItsSettings) {
  EXPECT_EQ(OwnProcess().run("DefaultEngine.DISABLED_ThatExistsKeepsItsSettings"), 0);
}

}  // namespace
}  // namespace jitstep::jit
