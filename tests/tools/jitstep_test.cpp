// The command-line tool, as users run it.
#include <jitstep/version.h>
#include <sys/stat.h>

#include <map>
#include <nlohmann/json.hpp>

#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/isa.h"
#include "tools/tool.h"

namespace jitstep::jit {
namespace {

using testing::adding_unit;
using testing::content_of;
using testing::settings_with_cache;
using testing::TemporaryFolder;

class Tool : public ::testing::Test {
 protected:
  Finished run(const std::vector<std::string>& args, const std::string& templates = "",
               const std::string& compiler = "") {
    std::vector<std::pair<std::string, std::string>> environment = {
        {"JITSTEP_CACHE_DIR", folder / "cache"},
        {"JITSTEP_CACHE_READONLY", readonly},
        {"JITSTEP_TEMPLATES", templates},
        {"JITSTEP_LOG", ""}};
    if (!compiler.empty()) environment.emplace_back("JITSTEP_CXX", compiler);
    return testing::run_tool(args, environment);
  }

  // Builds a kernel of a template in `templates`, in a cache folder. Its code contains its name, because the name alone
  // does not change the cache key.
  void make_kernel(const std::string& cache, const std::string& name) {
    make_kernel(settings_with_cache(cache), name);
  }
  void make_kernel(Settings settings, const std::string& name) {
    settings.templates = folder / "templates";
    testing::write_file(folder / "templates/rules/mine.cuh", "constexpr int kMine = 1;\n");
    // The name is not part of the key.
    Engine(settings).build("#include \"rules/mine.cuh\"\nconstexpr char kName[] = \"" + name +
                               "\";\n" + adding_unit("kMine"),
                           name, Target::cpu());
  }

  static bool says(const Finished& run, const std::string& part) {
    return run.output.find(part) != std::string::npos;
  }

  TemporaryFolder folder;
  std::string readonly;
};

TEST_F(Tool, ReportsAMissingTemplatesFolder) {
  const Finished result =
      run({"compile", R"({"rule": "sgd"})", "--target", "cpu", "--out", folder / "out"},
          folder / "none");
  EXPECT_TRUE(says(result, "none: it is not a folder. Using the built-in templates."));
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(Tool, WarnsOfAnInvalidVariableOnceUnlessTheLogIsOff) {
  const auto count = [](const char* log) {
    const Finished shown = testing::run_tool({"inspect", "--rule", "sgd", "--target", "cpu"},
                                             {{"JITSTEP_CPU", "fast"}, {"JITSTEP_LOG", log}});
    std::size_t times = 0;
    for (std::size_t at = 0; (at = shown.output.find("JITSTEP_CPU is", at)) != std::string::npos;)
      ++times, ++at;
    return times;
  };
  EXPECT_EQ(count("warn"), 1u);
  EXPECT_EQ(count("off"), 0u);
}

TEST_F(Tool, PrintsItsVersionAndItsCommands) {
  EXPECT_TRUE(says(run({"--version"}), jitstep::version()));
  const Finished help = run({"cache", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"list", "verify", "explain", "trim", "clear"}) {
    EXPECT_TRUE(says(help, command));
    EXPECT_EQ(run({"cache", command, "--help"}).status, 0);
  }
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"cache", "explain"},
                                                {"cache", "list", "all"},
                                                {"cache", "trim", "--max-size", "much"},
                                                {"nothing"},
                                                {"cache", "rm"}}) {
    EXPECT_EQ(run(wrong).status, 2);
  }
}

TEST_F(Tool, ListsBothLayers) {
  make_kernel(folder / "cache", "my_unit");
  make_kernel(folder / "below", "their_unit");
  readonly = folder / "below";
  const Finished list = run({"cache", "list"});
  EXPECT_EQ(list.status, 0) << list.output;
  EXPECT_TRUE(says(list, "my_unit\n")) << list.output;
  EXPECT_TRUE(says(list, "their_unit  (read-only cache)")) << list.output;
  EXPECT_TRUE(says(list, "2 entries, ")) << list.output;
}

TEST_F(Tool, DoctorCountsEachLayerSeparately) {
  make_kernel(folder / "below", "their_unit");
  readonly = folder / "below";
  const auto findings = nlohmann::json::parse(run({"doctor", "--json"}).output).at("findings");
  std::map<std::string, std::string> messages;
  for (const auto& one : findings) messages[one.at("name")] = one.at("message");
  EXPECT_TRUE(messages["cache"].starts_with(folder / "cache, 0 entries, 0 bytes"))
      << messages["cache"];
  EXPECT_TRUE(messages["read-only cache"].starts_with(folder / "below, 1 entry, "))
      << messages["read-only cache"];
}

TEST_F(Tool, DoctorMissesACacheFolderThatCannotExist) {
  testing::write_file(folder / "file", "");
  const Finished checked = testing::run_tool(
      {"doctor", "--json"}, {{"JITSTEP_CACHE_DIR", folder / "file/cache"}, {"JITSTEP_LOG", "off"}});
  EXPECT_EQ(checked.status, 1);
  std::map<std::string, std::string> states;
  const auto findings = nlohmann::json::parse(checked.output).at("findings");
  for (const auto& one : findings) states[one.at("name")] = one.at("state");
  EXPECT_EQ(states["cache"], "missing");
}

TEST_F(Tool, ListAloneListsAll) {
  const Finished all = run({"list"});
  EXPECT_EQ(all.status, 0) << all.output;
  for (const char* part : {"adamw", "int8", "kahan", "emulated"})
    EXPECT_TRUE(says(all, part)) << part;
  const auto tables = nlohmann::json::parse(run({"list", "--json"}).output);
  for (const char* table : {"rules", "codecs", "weights", "targets"})
    EXPECT_EQ(tables.at(table),
              nlohmann::json::parse(run({"list", table, "--json"}).output).at(table));
}

TEST_F(Tool, ListsAsJson) {
  make_kernel(folder / "cache", "my_unit");
  const auto entries = nlohmann::json::parse(run({"cache", "list", "--json"}).output).at("entries");
  ASSERT_EQ(entries.size(), 1u);
  const auto& entry = entries[0];
  const std::string file = testing::files_below(folder / "cache").at(0);
  EXPECT_EQ(entry.at("file"), file);
  EXPECT_EQ(entry.at("key"), testing::fs::path(file).stem().string());
  EXPECT_EQ(entry.at("bytes"), testing::fs::file_size(file));
  EXPECT_EQ(entry.at("name"), "my_unit");
  EXPECT_EQ(entry.at("target"), "cpu");
  EXPECT_EQ(entry.at("readonly"), false);
  EXPECT_EQ(entry.at("problem"), "");
  EXPECT_GT(entry.at("compile_ms"), 0);
  EXPECT_EQ(entry.at("last_used").get<std::string>().size(),
            std::string("2026-01-01T00:00:00Z").size());
}

TEST_F(Tool, VerifyAsJsonShowsTheProblem) {
  testing::write_file(folder / ("cache/" + std::string(64, 'a') + ".jsk"), "no entry");
  const Finished verify = run({"cache", "verify", "--json"});
  EXPECT_EQ(verify.status, 1);
  const auto entries = nlohmann::json::parse(verify.output).at("entries");
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].at("problem"), "damaged");
  EXPECT_FALSE(entries[0].contains("name"));
}

TEST_F(Tool, ARejectedFolderIsReportedAndFails) {
  make_kernel(folder / "cache", "my_unit");
  ::chmod((folder / "cache").c_str(), 0777);
  for (const char* command : {"list", "verify", "clear"}) {
    const Finished failed = run({"cache", command});
    EXPECT_EQ(failed.status, 1) << command;
    EXPECT_TRUE(says(failed, "chmod go-w")) << failed.output;
  }
  EXPECT_EQ(testing::files_below(folder / "cache").size(), 1u);
}

TEST_F(Tool, TrimDeletesTheLeastRecentlyUsedEntries) {
  for (const char* name : {"old", "new"}) {
    make_kernel(folder / "cache", name);
    if (*name == 'o') testing::age(testing::files_below(folder / "cache").at(0), 5);
  }
  Finished trim = run({"cache", "trim"});
  EXPECT_EQ(trim.status, 0);
  EXPECT_TRUE(says(trim, "after:  2 entries")) << trim.output;
  const auto bytes = testing::fs::file_size(testing::files_below(folder / "cache").at(0));
  trim = run({"cache", "trim", "--max-size", std::to_string(bytes * 3 / 2)});
  EXPECT_EQ(trim.status, 0) << trim.output;
  EXPECT_TRUE(says(trim, "before: 2 entries")) << trim.output;
  EXPECT_TRUE(says(trim, "after:  1 entry")) << trim.output;
  EXPECT_TRUE(says(run({"cache", "list"}), "new\n"));
}

TEST_F(Tool, ClearKeepsTheReadOnlyLayerAndOtherFiles) {
  make_kernel(folder / "cache", "my_unit");
  testing::write_file(folder / "cache/notes", "mine");
  make_kernel(folder / "below", "their_unit");
  readonly = folder / "below";
  const std::string identity = "/" + std::string(64, '1') + ".compiler";
  for (const char* name : {"cache", "below"}) testing::write_file(folder / name + identity, "");
  const Finished clear = run({"cache", "clear"});
  EXPECT_EQ(clear.status, 0) << clear.output;
  EXPECT_TRUE(says(clear, "after:  0 entries, 0 bytes")) << clear.output;
  EXPECT_EQ(testing::files_below(folder / "cache"),
            std::vector<std::string>{folder / "cache/notes"});
  EXPECT_EQ(testing::files_below(folder / "below").size(), 1u);
  EXPECT_TRUE(testing::files_below(folder / "cache", ".compiler").empty());
  EXPECT_TRUE(testing::fs::exists(folder / "below" + identity));
}

TEST_F(Tool, AnEmptyCacheIsNoError) {
  EXPECT_EQ(run({"cache", "list"}).status, 0);
  const Finished verify = run({"cache", "verify"});
  EXPECT_EQ(verify.status, 0);
  EXPECT_TRUE(says(verify, "0 entries, 0 bytes, 0 unusable")) << verify.output;
}

TEST_F(Tool, VerifyNamesDamageAndFails) {
  make_kernel(folder / "cache", "my_unit");
  EXPECT_EQ(run({"cache", "verify"}).status, 0);
  const std::string file = testing::files_below(folder / "cache").at(0);
  const std::string whole = content_of(file);
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  testing::write_file(file, flipped);
  Finished verify = run({"cache", "verify"});
  EXPECT_EQ(verify.status, 1);
  EXPECT_TRUE(says(verify, file + ": damaged")) << verify.output;
  EXPECT_EQ(content_of(file), flipped) << "verify must not change the file";
  testing::write_file(file, whole);
  ::chmod(file.c_str(), 0666);
  verify = run({"cache", "verify"});
  EXPECT_EQ(verify.status, 1);
  EXPECT_TRUE(says(verify, "chmod go-w")) << verify.output;
}

// Complete cache files whose binaries do not run: one is truncated, one needs a missing symbol.
TEST_F(Tool, VerifyFindsBinariesThatDoNotLoad) {
  make_kernel(folder / "cache", "my_unit");
  Settings settings = settings_with_cache(folder / "cache");
  DiskCache cache(settings);
  const EntryHeader header = *cache.list(true).at(0).header;
  const CacheEntry whole = *cache.find(header.key);
  CacheEntry half = whole, unresolved = whole;
  half.binary.image.resize(half.binary.image.size() / 2);
  unresolved.binary = HostCompiler(settings).compile("void none();\n" + adding_unit("1; none()"),
                                                     "unit", Target::emulated());
  for (const auto& [entry, word] : {std::pair(half, "truncated"), std::pair(unresolved, "none")}) {
    cache.publish(header.key, entry);
    const std::string file = testing::files_below(folder / "cache").at(0);
    const Finished verify = run({"cache", "verify"});
    EXPECT_EQ(verify.status, 1) << verify.output;
    EXPECT_TRUE(says(verify, file + ": ") && says(verify, word)) << verify.output;
    EXPECT_TRUE(says(verify, "1 unusable")) << verify.output;
    EXPECT_EQ(nlohmann::json::parse(run({"cache", "verify", "--json"}).output)
                  .at("entries")[0]
                  .at("problem")
                  .get<std::string>()
                  .empty(),
              false);
  }
  cache.publish(header.key, whole);
  EXPECT_EQ(run({"cache", "verify"}).status, 0);
}

// The check compiles an empty function, without templates.
TEST_F(Tool, DoctorTriesTheCompilerWithAKernel) {
  const std::string old = folder / "c++";
  testing::write_file(old, "#!/bin/sh\nexec c++ \"$@\" -std=c++11\n");
  ::chmod(old.c_str(), 0700);
  const Finished checked = run({"doctor", "--json"}, "", old);
  EXPECT_EQ(checked.status, 1) << checked.output;
  const auto all = nlohmann::json::parse(checked.output).at("findings");
  EXPECT_EQ(all.at(0).at("name"), "compiler");
  EXPECT_EQ(all.at(0).at("state"), "missing");
  EXPECT_NE(all.at(0).at("message").get<std::string>().find(old), std::string::npos)
      << checked.output;
  EXPECT_EQ(
      nlohmann::json::parse(run({"doctor", "--json"}).output).at("findings").at(0).at("state"),
      "ok");
}

TEST_F(Tool, ExplainReportsChangedSources) {
  make_kernel(folder / "cache", "my_unit");
  const std::string templates = folder / "templates";
  Finished explain = run({"cache", "explain", "my_unit"}, templates);
  EXPECT_EQ(explain.status, 0) << explain.output;
  EXPECT_TRUE(says(explain, "used for the same source")) << explain.output;
  EXPECT_FALSE(says(explain, "not used")) << explain.output;
  testing::write_file(templates + "/rules/mine.cuh", "constexpr int kMine = 2;\n");
  const std::string key =
      testing::fs::path(testing::files_below(folder / "cache").at(0)).stem().string();
  for (const std::string& asked :
       {std::string("my_unit"), std::string("my_"), key, key.substr(0, 8)}) {
    explain = run({"cache", "explain", asked}, templates);
    EXPECT_TRUE(says(explain, "not used: rules/mine.cuh has changed")) << explain.output;
  }
}

TEST_F(Tool, ExplainComparesALoadedFileWithTheNamedOne) {
  make_kernel(folder / "cache", "my_unit");
  Finished explain = run({"cache", "explain", "my_unit"});
  EXPECT_TRUE(says(explain, "used for the same source")) << explain.output;
  EXPECT_TRUE(says(explain, "not compared: rules/mine.cuh, which does not ship with jitstep"))
      << explain.output;
  explain = run({"cache", "explain", "my_unit", "--load", folder / "templates/rules/mine.cuh"});
  EXPECT_TRUE(says(explain, "used for the same source")) << explain.output;
  EXPECT_FALSE(says(explain, "not compared")) << explain.output;
  testing::write_file(folder / "other/mine.cuh", "constexpr int kMine = 2;\n");
  explain = run({"cache", "explain", "my_unit", "--load", folder / "other/mine.cuh"});
  EXPECT_TRUE(says(explain, "not used: rules/mine.cuh has changed")) << explain.output;
  EXPECT_EQ(run({"cache", "explain", "my_unit", "--load", folder / "none/mine.cuh"}).status, 1);
}

TEST_F(Tool, ExplainReportsDamageAndAMissingCompiler) {
  make_kernel(folder / "cache", "my_unit");
  const std::string file = testing::files_below(folder / "cache").at(0);
  const std::string whole = content_of(file);
  const Finished bare = run({"cache", "explain", "my_unit"}, folder / "templates", "/no/compiler");
  EXPECT_TRUE(says(bare, "no compiler here: no host C++ compiler")) << bare.output;
  EXPECT_TRUE(says(bare, "used for the same source")) << bare.output;
  testing::write_file(file, whole.substr(0, whole.size() - 1) + "?");
  const Finished damaged = run({"cache", "explain", "my_unit"}, folder / "templates");
  EXPECT_TRUE(says(damaged, "not used: damaged")) << damaged.output;
}

TEST_F(Tool, ExplainWithoutACompilerReportsAnEntryThatTheEngineRefuses) {
  Settings settings = settings_with_cache(folder / "cache");
  settings.check = true;
  make_kernel(settings, "my_unit");
  const Finished bare = run({"cache", "explain", "my_unit"}, folder / "templates", "/no/compiler");
  EXPECT_TRUE(says(bare, "not used: its compiler options differ")) << bare.output;
  EXPECT_FALSE(says(bare, "used for the same source")) << bare.output;
}

// The engine loads it instead of compiling, but not if the cache has native code.
TEST_F(Tool, ExplainReportsThatABaselineOfTheReadOnlyLayerIsUsed) {
  if (this_processor().empty()) GTEST_SKIP() << "baselines exist only for x86-64";
  Settings baseline = testing::settings_of_this_computer(folder / "below");
  baseline.cpu = "x86-64-v2";
  make_kernel(baseline, "my_unit");
  const auto explained = [&](const std::string& readonly_folder, const std::string& own) {
    Variables variables = testing::kPlainCompiler;
    variables.insert(variables.end(), {{"JITSTEP_CACHE_DIR", own},
                                       {"JITSTEP_CACHE_READONLY", readonly_folder},
                                       {"JITSTEP_TEMPLATES", folder / "templates"},
                                       {"JITSTEP_CPU", ""}});
    const Finished result = testing::run_tool({"cache", "explain", "my_unit", "--json"}, variables);
    const auto entries = nlohmann::json::parse(result.output).at("entries");
    return entries.back().at("used").get<bool>();
  };
  EXPECT_TRUE(explained(folder / "below", folder / "cache"));
  EXPECT_FALSE(explained("", folder / "below")) << "the user's own folder";
  make_kernel(testing::settings_of_this_computer(folder / "cache"), "my_unit");
  EXPECT_FALSE(explained(folder / "below", folder / "cache"));
}

TEST_F(Tool, ExplainReportsAMissingEntry) {
  const Finished explain = run({"cache", "explain", "no_unit"});
  EXPECT_EQ(explain.status, 1);
  EXPECT_TRUE(says(explain, "no entry's name or key starts with \"no_unit\"")) << explain.output;
}

}  // namespace
}  // namespace jitstep::jit
