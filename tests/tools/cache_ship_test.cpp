// `jitstep cache warm` and `export`: fill a cache here, and use it where there is no compiler.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/isa.h"
#include "jit/engine/kernel_list.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using nlohmann::json;
using testing::TemporaryFolder;
using Args = std::vector<std::string>;

class CacheShip : public ::testing::Test {
 protected:
  Finished run(const Args& args, const Variables& more = {}) {
    std::map<std::string, std::string> environment = {{"JITSTEP_CACHE_DIR", folder / "cache"},
                                                      {"JITSTEP_CACHE_READONLY", ""},
                                                      {"JITSTEP_TEMPLATES", ""},
                                                      {"JITSTEP_LOG", ""}};
    for (const auto& [name, value] : more) environment[name] = value;
    return testing::run_tool(args, {environment.begin(), environment.end()});
  }
  json warmed(Args args) {
    args.insert(args.begin(), {"cache", "warm", "--json"});
    const Finished result = run(args);
    EXPECT_EQ(result.status, 0) << result.output;
    return json::parse(result.output).at("kernels");
  }

  TemporaryFolder folder;
};

std::set<std::string> names_of(const json& kernels) {
  std::set<std::string> names;
  for (const json& one : kernels) names.insert(one.at("name"));
  return names;
}

TEST_F(CacheShip, WarmCompilesKernelsForLargeParametersVectorsAndSmallOnes) {
  const json kernels = warmed({R"({"rule": "lion", "state": "int4_rank1"})"});
  EXPECT_EQ(names_of(kernels), (std::set<std::string>{"lion_int4_rank1_float32",
                                                      "lion_int4_float32", "lion_fp32_float32"}));
  for (const json& one : kernels) EXPECT_EQ(one.at("from_cache"), false) << one;
  for (const json& one : warmed({R"({"rule": "lion", "state": "int4_rank1"})"}))
    EXPECT_EQ(one.at("from_cache"), true) << one;
}

TEST_F(CacheShip, WarmAcceptsAFileAndSeveralTargets) {
  testing::write_file(folder / "specs.jsonl",
                      "{\"rule\": \"lion\"}\n{\"rule\": \"sgd\", \"param\": \"bfloat16\"}\n");
  const json kernels = warmed({"--from", folder / "specs.jsonl", "--target", "cpu,emulated"});
  EXPECT_EQ(kernels.size(), 4u);
  EXPECT_EQ(names_of(kernels), (std::set<std::string>{"lion_fp32_float32", "sgd_bfloat16"}));
}

TEST_F(CacheShip, WarmNamesTheKernelThatFailsAndExitsWithAnError) {
  const Finished result =
      run({"cache", "warm", R"({"rule": "lion"})"}, {{"JITSTEP_CXX", "/no/compiler"}});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.output.starts_with("lion_fp32_float32  cpu  failed: ")) << result.output;
  EXPECT_NE(result.output.find("no host C++ compiler"), std::string::npos) << result.output;
  EXPECT_TRUE(result.output.ends_with("0 of 1 kernel in the cache\n")) << result.output;
}

TEST_F(CacheShip, WarmRequiresACacheFolder) {
  const Finished result = run({"cache", "warm", R"({"rule": "lion"})"},
                              {{"JITSTEP_CACHE_DIR", ""}, {"HOME", ""}, {"XDG_CACHE_HOME", ""}});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("JITSTEP_CACHE_DIR"), std::string::npos) << result.output;
}

TEST_F(CacheShip, AnExportedFolderWorksOnAComputerWithoutACompiler) {
  warmed({R"({"rule": "lion"})"});
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}).status, 0);
  const Args compile = {"compile", R"({"rule": "lion"})", "--target", "cpu",
                        "--out",   folder / "out"};
  const Variables bare = {{"JITSTEP_CACHE_DIR", folder / "empty"}, {"JITSTEP_CXX", "/no/compiler"}};
  EXPECT_EQ(run(compile, bare).status, 1) << "there is neither a compiler nor a cache";
  Variables served = bare;
  served.emplace_back("JITSTEP_CACHE_READONLY", folder / "shipped");
  const Finished made = run(compile, served);
  EXPECT_EQ(made.status, 0) << made.output;
}

TEST_F(CacheShip, TheNameOfACacheFolderMayEndInASlash) {
  warmed({R"({"rule": "lion"})"});
  const Variables slash = {{"JITSTEP_CACHE_DIR", folder / "cache/"}};
  EXPECT_EQ(run({"cache", "verify"}, slash).status, 0);
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}, slash).status, 0);
}

TEST_F(CacheShip, ExportToARelativeFolderNeedsAWorkingDirectory) {
  warmed({R"({"rule": "lion"})"});
  const std::string gone = folder / "gone";
  const Finished result = run_program(
      {"/bin/sh", "-c",
       "mkdir " + gone + " && cd " + gone + " && rmdir " + gone +
           " && exec " JITSTEP_TOOL " cache export shipped"},
      "", own_variables({{"JITSTEP_CACHE_DIR", folder / "cache"}, {"JITSTEP_CACHE_READONLY", ""}}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("cannot create the folder shipped: "), std::string::npos)
      << result.output;
}

TEST_F(CacheShip, BaselinesAreCompiledExportedAndLoaded) {
  if (this_processor().empty()) GTEST_SKIP() << "baselines exist only for x86-64";
  const json kernels =
      warmed({R"({"rule": "lion"})", "--cpu", "x86-64-v2,x86-64-v3", "--target", "cpu,emulated"});
  std::set<std::string> cpus;
  for (const json& one : kernels)
    cpus.insert(one.at("target").get<std::string>() + " " + one.at("cpu").get<std::string>());
  EXPECT_EQ(cpus, (std::set<std::string>{"cpu x86-64-v2", "cpu x86-64-v3", "emulated "}));
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}).status, 0);
  const Args compile = {"compile", R"({"rule": "lion"})", "--target", "cpu",
                        "--out",   folder / "out"};
  const Finished made = run(compile, {{"JITSTEP_CACHE_DIR", folder / "empty"},
                                      {"JITSTEP_CXX", "/no/compiler"},
                                      {"JITSTEP_CACHE_READONLY", folder / "shipped"}});
  EXPECT_EQ(made.status, 0) << made.output;
  EXPECT_EQ(run({"cache", "warm", R"({"rule": "lion"})", "--cpu", "x86-64-v9"}).status, 2);
}

TEST_F(CacheShip, AMissWithoutACompilerNamesKernelFolderAndDifferingOption) {
  warmed({R"({"rule": "lion"})"});
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}).status, 0);
  const Finished missed = run({"compile", R"({"rule": "lion", "options": {"maximize": true}})",
                               "--target", "cpu", "--out", folder / "out"},
                              {{"JITSTEP_CACHE_DIR", folder / "empty"},
                               {"JITSTEP_CXX", "/no/compiler"},
                               {"JITSTEP_CACHE_READONLY", folder / "shipped"}});
  EXPECT_EQ(missed.status, 1);
  for (const std::string& part : {std::string("lion_fp32_float32"), folder / "shipped",
                                  std::string("maximize = false and without maximize = true")})
    EXPECT_NE(missed.output.find(part), std::string::npos) << part << "\n" << missed.output;
}

const std::string kExamples = JITSTEP_SOURCE_DIR "/examples/";

TEST_F(CacheShip, ASpecMayNameTheFilesOfARuleAndACodec) {
  const json spec = {{"rule", kExamples + "signum.cuh"}, {"state", kExamples + "linear8.cuh"}};
  EXPECT_TRUE(
      names_of(warmed({spec.dump(), "--cpu", "native"})).contains("signum_linear8_float32"));
  const json slots = {{"rule", kExamples + "signum.cuh"},
                      {"state", {{"m", {{"codec", kExamples + "linear8.cuh"}}}}}};
  for (const json& one : warmed({slots.dump()})) EXPECT_EQ(one.at("from_cache"), true) << one;
  for (const Args& args : {Args{spec.dump()}, Args{"--rule", kExamples + "signum.cuh", "--state",
                                                   kExamples + "linear8.cuh"}}) {
    Args compile = {"compile", "--json", "--target", "cpu", "--out", folder / "out"};
    compile.insert(compile.end(), args.begin(), args.end());
    const Finished made = run(compile);
    EXPECT_EQ(made.status, 0) << made.output;
    EXPECT_EQ(json::parse(made.output).at("kernel"), "signum_linear8_float32");
  }
}

TEST_F(CacheShip, AnOptimizerIsGivenBySpecOrByFlagsButNotBoth) {
  const json by_words = warmed(
      {"--rule", "lion", "--state", "int8", "--set", "maximize=true", "--param", "bfloat16"});
  EXPECT_EQ(names_of(by_words),
            (std::set<std::string>{"lion_int8_bfloat16", "lion_fp32_bfloat16"}));
  for (const json& one :
       warmed({R"({"rule": "lion", "state": "int8", "options": {"maximize": true}})", "--param",
               "bfloat16"}))
    EXPECT_EQ(one.at("from_cache"), true) << one;
  for (const Args& command : {Args{"cache", "warm"}, Args{"compile"}}) {
    Args both = command;
    both.insert(both.end(), {R"({"rule": "lion"})", "--rule", "sgd"});
    EXPECT_EQ(run(both).status, 2);
  }
  EXPECT_EQ(run({"cache", "warm"}).status, 2) << "no optimizer is named";
}

// A program's list of kernels. One of them needs a template that is missing here.
TEST_F(CacheShip, WarmCompilesTheKernelsOfAProgram) {
  Engine program(testing::settings_with_cache(folder / "program"));
  program.templates().add("rules/mine.cuh", "constexpr int kMine = 1;\n");
  const std::string own = "#include \"rules/mine.cuh\"\n" + testing::adding_unit("kMine");
  const auto plain = program.build(testing::adding_unit("1"), "plain", Target::cpu());
  const auto mine = program.build(own, "mine", Target::cpu());
  write_kernel_list({plain, mine, plain}, folder / "kernels.jsonl");
  const json kernels = warmed({"--kernels", folder / "kernels.jsonl"});
  EXPECT_EQ(kernels.size(), 2u) << "each once";
  EXPECT_EQ(names_of(kernels), (std::set<std::string>{"plain", "mine"}));
  Settings settings = testing::settings_with_cache(folder / "elsewhere");
  settings.cache_readonly = folder / "cache";
  settings.cxx = "/no/compiler";
  Engine served(settings);
  served.templates().add("rules/mine.cuh", "constexpr int kMine = 1;\n");
  EXPECT_EQ(testing::add_to(*served.kernel(own, "mine", Target::cpu()), 1), 2);
  EXPECT_EQ(testing::add_to(*served.kernel(testing::adding_unit("1"), "plain", Target::cpu()), 1),
            2);
  EXPECT_EQ(
      warmed({"--kernels", folder / "kernels.jsonl", "--target", "emulated", "--rule", "lion"})
          .size(),
      1u)
      << "the list has no kernel for that target";
  testing::write_file(folder / "kernels.jsonl", "{\"name\": \"x\"}\n");
  const Finished wrong = run({"cache", "warm", "--kernels", folder / "kernels.jsonl"});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.output.find("kernels.jsonl:1: "), std::string::npos) << wrong.output;
}

TEST_F(CacheShip, OtherUsersMayReadAnExportedFolderButNotWriteToIt) {
  using testing::fs::perms;
  warmed({R"({"rule": "lion"})", R"({"rule": "sgd"})"});
  EXPECT_EQ(run({"cache", "export", folder / "shipped", "lion"}).status, 0);
  const auto mode = [](const std::string& path) { return testing::fs::status(path).permissions(); };
  EXPECT_EQ(mode(folder / "shipped"), perms(0755));
  const Args files = testing::files_below(folder / "shipped");
  ASSERT_EQ(files.size(), 1u) << "only that of lion";
  EXPECT_EQ(mode(files[0]), perms(0644));
}

TEST_F(CacheShip, ExportNamesWhatItLeavesOut) {
  warmed({R"({"rule": "lion"})", R"({"rule": "sgd"})"});
  const Finished mistyped = run({"cache", "export", folder / "shipped", "lion", "adamv"});
  EXPECT_EQ(mistyped.status, 1);
  EXPECT_NE(mistyped.output.find("starts with \"adamv\""), std::string::npos) << mistyped.output;
  EXPECT_FALSE(testing::fs::exists(folder / "shipped"));
  const json entries = json::parse(run({"cache", "list", "--json"}).output).at("entries");
  ASSERT_EQ(entries.size(), 2u);
  testing::write_file(entries[0].at("file"), "damaged");
  const Finished rest = run({"cache", "export", folder / "shipped"});
  EXPECT_EQ(rest.status, 1);
  EXPECT_NE(rest.output.find("left out " + (folder / "cache")), std::string::npos) << rest.output;
  EXPECT_EQ(testing::files_below(folder / "shipped").size(), 1u);
}

TEST_F(CacheShip, ExportCopiesTuningRecords) {
  warmed({R"({"rule": "lion"})"});
  const Finished tuned = run({"tune", "--rule", "lion", "--sizes", "4k", "--trials", "1",
                              "--threads", "1", "--budget", "1s"});
  ASSERT_EQ(tuned.status, 0) << tuned.output;
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}).status, 0);
  const std::string records = testing::content_of(folder / "cache/tuning.jsonl");
  EXPECT_EQ(testing::content_of(folder / "shipped/tuning.jsonl"), records);
  testing::fs::remove(folder / "cache/tuning.jsonl");
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}).status, 0);
  EXPECT_EQ(testing::content_of(folder / "shipped/tuning.jsonl"), records) << "they stay";
  testing::write_file(folder / "cache/tuning.jsonl", records);
  testing::fs::permissions(folder / "cache/tuning.jsonl", testing::fs::perms(0666));
  EXPECT_EQ(run({"cache", "export", folder / "shipped"}).status, 1) << "others can write it";
}

TEST_F(CacheShip, ExportKeepsThePermissionsOfAFolderThatExists) {
  using testing::fs::perms;
  warmed({R"({"rule": "lion"})"});
  const auto mode = [](const std::string& path) { return testing::fs::status(path).permissions(); };
  testing::fs::create_directory(folder / "private");
  testing::fs::permissions(folder / "private", perms(0700));
  const Finished result = run({"cache", "export", folder / "private"});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.output.find("other users cannot enter"), std::string::npos) << result.output;
  EXPECT_EQ(mode(folder / "private"), perms(0700));
  EXPECT_EQ(run({"cache", "export", folder / "made/shipped"}).status, 0);
  EXPECT_EQ(mode(folder / "made"), perms(0755)) << "others reach the folder through it";
  EXPECT_EQ(mode(folder / "made/shipped"), perms(0755));
}

TEST_F(CacheShip, WarmFailsIfAKernelIsNotStored) {
  testing::fs::create_directory(folder / "open");
  testing::fs::permissions(folder / "open", testing::fs::perms(0777));
  for (const char* log : {"off", "warn"}) {
    const Finished result = run({"cache", "warm", R"({"rule": "lion"})"},
                                {{"JITSTEP_CACHE_DIR", folder / "open"}, {"JITSTEP_LOG", log}});
    EXPECT_EQ(result.status, 1) << log;
    EXPECT_NE(result.output.find("is not in the cache"), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("0 of 1 kernel in the cache\n"), std::string::npos)
        << result.output;
  }
}

TEST_F(CacheShip, AWarningOfAnotherSettingIsNoFailure) {
  warmed({R"({"rule": "lion"})"});
  for (const char* action : {"list", "verify"})
    EXPECT_EQ(run({"cache", action}, {{"JITSTEP_CPU", "none"}}).status, 0);
  testing::fs::permissions(folder / "cache", testing::fs::perms(0777));
  EXPECT_EQ(run({"cache", "list"}).status, 1) << "a rejected folder";
}

TEST_F(CacheShip, WarmCountsAProcessorOnceAndRefusesAFolderAsItsFile) {
  if (this_processor().empty()) GTEST_SKIP() << "baselines exist only for x86-64";
  EXPECT_EQ(warmed({R"({"rule": "lion"})", "--cpu", "x86-64-v2,x86-64-v2"}).size(), 1u);
  const Finished result = run({"cache", "warm", "--from", folder.path()});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("cannot read"), std::string::npos) << result.output;
}

TEST_F(CacheShip, ABadLineOfTuningRecordsIsReportedOnce) {
  testing::fs::create_directory(folder / "cache");
  testing::write_file(folder / "cache/tuning.jsonl", "no record\n");
  const Finished result = run({"cache", "warm", R"({"rule": "lion"})"});
  EXPECT_EQ(result.status, 0);
  const std::size_t first = result.output.find("tuning.jsonl:1");
  EXPECT_NE(first, std::string::npos) << result.output;
  EXPECT_EQ(result.output.find("tuning.jsonl:1", first + 1), std::string::npos) << result.output;
}

TEST_F(CacheShip, ADamagedEntryIsNotExported) {
  warmed({R"({"rule": "lion"})"});
  const std::string file = testing::files_below(folder / "cache").at(0);
  testing::write_file(file, testing::content_of(file) + "?");
  const Finished result = run({"cache", "export", folder / "shipped"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.output.find("there is no entry to export"), std::string::npos) << result.output;
  EXPECT_FALSE(testing::fs::exists(folder / "shipped"));
}

}  // namespace
}  // namespace jitstep::jit
