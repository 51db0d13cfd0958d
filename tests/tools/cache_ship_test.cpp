// `jitstep cache warm` and `export`: a cache that is filled here and used where there is no compiler.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "jit/base/process.h"
#include "jit/cache/cache_fixtures.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using testing::TemporaryFolder;
using Words = std::vector<std::string>;

class CacheShip : public ::testing::Test {
 protected:
  Finished run(Words words, const Variables& more = {}) {
    words.insert(words.begin(), JITSTEP_TOOL);
    std::map<std::string, std::string> environment = {{"JITSTEP_CACHE_DIR", folder / "cache"},
                                                      {"JITSTEP_CACHE_READONLY", ""},
                                                      {"JITSTEP_TEMPLATES", ""},
                                                      {"JITSTEP_LOG", ""}};
    for (const auto& [name, value] : more) environment[name] = value;
    return run_program(words, "", own_variables({environment.begin(), environment.end()}));
  }
  json warmed(Words words) {
    words.insert(words.begin(), {"cache", "warm", "--json"});
    const Finished said = run(words);
    EXPECT_EQ(said.status, 0) << said.output;
    return json::parse(said.output);
  }

  TemporaryFolder folder;
};

std::set<std::string> names_of(const json& kernels) {
  std::set<std::string> names;
  for (const json& one : kernels) names.insert(one.at("name"));
  return names;
}

TEST_F(CacheShip, WarmMakesWhatLargeParametersVectorsAndSmallOnesNeed) {
  const json kernels = warmed({R"({"rule": "lion", "state": "int4_rank1"})"});
  EXPECT_EQ(names_of(kernels), (std::set<std::string>{"lion_int4_rank1_float32",
                                                      "lion_int4_float32", "lion_fp32_float32"}));
  for (const json& one : kernels) EXPECT_EQ(one.at("from_cache"), false) << one;
  for (const json& one : warmed({R"({"rule": "lion", "state": "int4_rank1"})"}))
    EXPECT_EQ(one.at("from_cache"), true) << one;
}

TEST_F(CacheShip, WarmTakesAFileAndSeveralTargets) {
  testing::write_file(folder / "specs.jsonl",
                      "{\"rule\": \"lion\"}\n{\"rule\": \"sgd\", \"param\": \"bfloat16\"}\n");
  const json kernels = warmed({"--from", folder / "specs.jsonl", "--target", "cpu,emulated"});
  EXPECT_EQ(kernels.size(), 4u);
  EXPECT_EQ(names_of(kernels), (std::set<std::string>{"lion_fp32_float32", "sgd_bfloat16"}));
}

TEST_F(CacheShip, WarmThatFailsSaysWhichAndFails) {
  const Finished said =
      run({"cache", "warm", R"({"rule": "lion"})"}, {{"JITSTEP_CXX", "/no/compiler"}});
  EXPECT_EQ(said.status, 1);
  EXPECT_TRUE(said.output.starts_with("lion_fp32_float32  cpu  failed: no host C++ compiler"))
      << said.output;
  EXPECT_TRUE(said.output.ends_with("0 of 1 kernels are in the cache\n")) << said.output;
}

TEST_F(CacheShip, WarmWithoutAFolderHasNowhereToCompileTo) {
  const Finished said = run({"cache", "warm", R"({"rule": "lion"})"},
                            {{"JITSTEP_CACHE_DIR", ""}, {"HOME", ""}, {"XDG_CACHE_HOME", ""}});
  EXPECT_EQ(said.status, 1);
  EXPECT_NE(said.output.find("there is no cache folder to compile into"), std::string::npos)
      << said.output;
}

TEST_F(CacheShip, AnExportedFolderServesAMachineWithoutACompiler) {
  warmed({R"({"rule": "lion"})"});
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}).status, 0);
  const Words compile = {"compile", R"({"rule": "lion"})", "--target", "cpu",
                         "--out",   folder / "out"};
  const Variables bare = {{"JITSTEP_CACHE_DIR", folder / "empty"}, {"JITSTEP_CXX", "/no/compiler"}};
  EXPECT_EQ(run(compile, bare).status, 1) << "there is neither compiler nor cache";
  Variables served = bare;
  served.emplace_back("JITSTEP_CACHE_READONLY", folder / "shipped");
  const Finished made = run(compile, served);
  EXPECT_EQ(made.status, 0) << made.output;
}

TEST_F(CacheShip, OthersMayReadAnExportedFolderAndNotWriteToIt) {
  using testing::fs::perms;
  warmed({R"({"rule": "lion"})", R"({"rule": "sgd"})"});
  EXPECT_EQ(run({"cache", "export", folder / "shipped", "lion"}).status, 0);
  const auto mode = [](const std::string& path) { return testing::fs::status(path).permissions(); };
  EXPECT_EQ(mode(folder / "shipped"), perms(0755));
  const Words files = testing::files_below(folder / "shipped");
  ASSERT_EQ(files.size(), 1u) << "of lion alone";
  EXPECT_EQ(mode(files[0]), perms(0644));
}

TEST_F(CacheShip, ADamagedEntryIsNotExported) {
  warmed({R"({"rule": "lion"})"});
  const std::string file = testing::files_below(folder / "cache").at(0);
  testing::write_file(file, testing::content_of(file) + "?");
  const Finished said = run({"cache", "export", folder / "shipped"});
  EXPECT_EQ(said.status, 1);
  EXPECT_TRUE(said.output.starts_with("jitstep: no entry to export")) << said.output;
  EXPECT_FALSE(testing::fs::exists(folder / "shipped"));
}

}  // namespace
}  // namespace jitstep::jit
