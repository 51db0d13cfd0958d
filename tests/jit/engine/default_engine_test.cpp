// The settings of the engine of a process. Each test runs in its own process, whose default engine is new.
#include "jit/fixtures.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"
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
