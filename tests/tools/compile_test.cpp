// `jitstep compile`, as users run it.
#include <nlohmann/json.hpp>

#include "jit/cache/cache_fixtures.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using testing::content_of;

class CompileTool : public ::testing::Test {
 protected:
  // With its own cache and the built-in templates.
  Variables environment() const {
    return {{"JITSTEP_CACHE_DIR", folder / "cache"},
            {"JITSTEP_CACHE_READONLY", ""},
            {"JITSTEP_TEMPLATES", ""},
            {"JITSTEP_LOG", ""}};
  }
  Finished run(std::vector<std::string> args) const {
    args.insert(args.begin(), "compile");
    return testing::run_tool(args, environment());
  }

  static bool says(const Finished& run, const std::string& part) {
    return run.output.find(part) != std::string::npos;
  }

  testing::TemporaryFolder folder;
};

// The first run compiles the kernel, so that only the tool itself writes a file in the second one. 8 blocks are 4 KiB.
TEST_F(CompileTool, WritesACompleteBinaryOrNone) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer cannot start with this limit on file sizes";
#endif
  const std::string spec = R"({"rule": "sgd"})";
  const Finished whole = run({spec, "--target", "cpu", "--out", folder / "whole", "--json"});
  ASSERT_EQ(whole.status, 0) << whole.output;
  ASSERT_GT(nlohmann::json::parse(whole.output).at("bytes"), 4096);
  const std::string command = "ulimit -f 8; exec " JITSTEP_TOOL " compile '" + spec +
                              "' --target cpu --out " + (folder / "out");
  const Finished cut = run_program({"/bin/sh", "-c", command}, "", own_variables(environment()));
  EXPECT_EQ(cut.status, 1) << cut.output;
  const std::string file = nlohmann::json::parse(whole.output).at("file");
  EXPECT_TRUE(says(cut, "/out/" + testing::fs::path(file).filename().string())) << cut.output;
  EXPECT_TRUE(says(cut, "ulimit -f")) << cut.output;
  EXPECT_TRUE(testing::files_below(folder / "out").empty());
}

TEST_F(CompileTool, WritesTheBinaryAndDescribesIt) {
  const Finished compiled =
      run({R"({"rule": "sgd", "options": {"momentum": 0.9}, "state": "bf16"})", "--json", "--param",
           "bfloat16", "--target", "cpu", "--out", folder / "binaries"});
  ASSERT_EQ(compiled.status, 0) << compiled.output;
  const auto result = nlohmann::json::parse(compiled.output);
  EXPECT_EQ(result.at("kernel"), "sgd_bf16_bfloat16");
  EXPECT_EQ(result.at("entries"), nlohmann::json({"jitstep_apply"}));
  EXPECT_EQ(result.at("config").at("threads"), 1);
  EXPECT_EQ(content_of(result.at("file")).substr(1, 3), "ELF");
  EXPECT_EQ(testing::files_below(folder / "binaries"),
            std::vector<std::string>{result.at("file").get<std::string>()});
}

TEST_F(CompileTool, ReportsMistakes) {
  const std::string spec = R"({"rule": "sgd"})";
  EXPECT_TRUE(says(run({R"({"rule": "none"})"}), "none"));
  EXPECT_TRUE(says(run({R"({"rule": "sgd", "options": {"lr": -1}})"}), "lr is -1"));
  const Finished no_folder = run({R"({"rule": "sgd"})", "--target", "cpu", "--out", "/dev/null/x"});
  EXPECT_EQ(no_folder.status, 1);
  EXPECT_TRUE(says(no_folder, "cannot create the folder /dev/null/x")) << no_folder.output;
  EXPECT_EQ(run({spec, "--target", "sm"}).status, 2);
  const Finished cut = run({spec, "--config", "256,64,4,16"});
  EXPECT_EQ(cut.status, 2);
  EXPECT_TRUE(says(cut, "lanes (at most 32)")) << cut.output;
  EXPECT_EQ(run({spec, "--config", "256,32"}).status, 2);
}

}  // namespace
}  // namespace jitstep::jit
