#include "jit/cache/explain.h"

#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/host_compiler.h"
#include "jit/source/preprocess.h"

namespace jitstep::jit {
namespace {

using namespace testing;
using Lines = std::vector<std::string>;

constexpr char kCompiler[] =
    "gcc version 12.2\nTarget: x86_64\nisa: -mavx2 -mfma\noptions: -O3 -fPIC";

EntryHeader header(const std::string& name = "adamw_int8") {
  return {{sha256_hex("text"), Target::cpu(), kCompiler},
          name,
          12.5,
          {{kUnitSource, "u"}, {"rules/adamw.cuh", "r"}, {"codecs/int8.cuh", "c"}}};
}

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

std::string only_difference(const EntryHeader& wanted) {
  const auto found = differences(header(), wanted);
  return found.size() == 1 ? found[0] : str_cat(found.size(), " differences");
}

TEST(Explain, EqualKeysDifferInNothing) { EXPECT_TRUE(differences(header(), header()).empty()); }

TEST(Explain, AChangedTemplateIsNamed) {
  EntryHeader wanted = header();
  wanted.key.token_digest = sha256_hex("other");
  wanted.sources["rules/adamw.cuh"] = "changed";
  EXPECT_EQ(only_difference(wanted), "rules/adamw.cuh has changed");
  wanted = header();
  wanted.key.token_digest = sha256_hex("other");
  wanted.sources[kUnitSource] = "changed";
  EXPECT_EQ(only_difference(wanted), "the translation unit has changed");
  wanted = header();
  wanted.key.token_digest = sha256_hex("other");
  wanted.sources.erase("codecs/int8.cuh");
  wanted.sources["codecs/int4.cuh"] = "new";
  EXPECT_EQ(differences(header(), wanted),
            (std::vector<std::string>{"codecs/int4.cuh is new", "codecs/int8.cuh was removed"}));
  wanted = header();
  wanted.key.token_digest = sha256_hex("other");
  EXPECT_TRUE(says(only_difference(wanted), "order of files"));
}

TEST(Explain, DifferentOptionsAndConfigsAreNamed) {
  const auto unit = [](const std::string& amsgrad, const std::string& config) {
    return "using UnitRule = Rule<Flags{.amsgrad = " + amsgrad + ", .maximize = true}>;\n" +
           "  static constexpr jitstep::KernelConfig config{.threads = 1, .leaves_per_item = " +
           config + "};\n";
  };
  EntryHeader entry = header(), wanted = header();
  wanted.key.token_digest = sha256_hex("other");
  wanted.sources[kUnitSource] = "changed";
  entry.unit = unit("false", "16");
  wanted.unit = unit("true", "16");
  EXPECT_EQ(differences(entry, wanted),
            Lines{"it was generated with amsgrad = false and without amsgrad = true"});
  wanted.unit = unit("false", "32");
  EXPECT_EQ(differences(entry, wanted),
            Lines{"it was generated with leaves_per_item = 16 and without leaves_per_item = 32"});
  wanted.unit = entry.unit + "struct Mine;\n";
  EXPECT_EQ(differences(entry, wanted), Lines{"it was generated without struct Mine"});
}

TEST(Explain, WithoutACompilerTheCallerDecidesWhichEntriesAreUsable) {
  const auto no = [](const std::string& compiler) {
    return str_cat("no use for ", compiler.substr(0, 3));
  };
  EntryHeader wanted = header();
  wanted.key.compiler.clear();
  EXPECT_EQ(differences(header(), wanted, no), Lines{"no use for gcc"});
  EXPECT_TRUE(says(explain_miss(wanted, {header()}, no), "differs: no use for gcc"));
  EXPECT_EQ(differences(header(), wanted, [](auto&) { return std::string(); }), Lines{});
}

TEST(Explain, DifferencesOfTargetCompilerIsaAndOptionsAreNamed) {
  EntryHeader wanted = header();
  wanted.key.target = Target::cuda(90);
  EXPECT_EQ(only_difference(wanted), "it is for cpu, not sm_90");
  wanted = header();
  wanted.key.compiler = "gcc version 13.1\nTarget: x86_64\nisa: -mavx2 -mfma\noptions: -O3 -fPIC";
  EXPECT_EQ(
      only_difference(wanted),
      "its compiler is gcc version 12.2, Target: x86_64, not gcc version 13.1, Target: x86_64");
  wanted = header();
  wanted.key.compiler =
      "gcc version 12.2\nTarget: x86_64\nisa: -mavx2 -mavx512f\noptions: -O3 -fPIC";
  EXPECT_EQ(only_difference(wanted), "its ISA flags differ: with -mfma, without -mavx512f");
  wanted = header();
  wanted.key.compiler = "gcc version 12.2\nTarget: x86_64\nisa: -mavx2 -mfma\noptions: -O2 -fPIC";
  EXPECT_EQ(only_difference(wanted), "its compiler options differ: with -O3, without -O2");
}

TEST(Explain, TheNearestEntryOfTheNameIsCompared) {
  EntryHeader wanted = header(), near = header(), far = header(), other = header("lamb_int8");
  wanted.key.token_digest = sha256_hex("now");
  wanted.sources["rules/adamw.cuh"] = "now";
  far.key.compiler = "gcc version 11\n";
  const std::string explanation = explain_miss(wanted, {far, other, near});
  EXPECT_TRUE(says(explanation, "most similar of 2")) << explanation;
  EXPECT_TRUE(says(explanation, near.key.digest().substr(0, 12))) << explanation;
  EXPECT_TRUE(says(explanation, "rules/adamw.cuh has changed")) << explanation;
  EXPECT_FALSE(says(explanation, "compiler")) << explanation;
  EXPECT_TRUE(says(explain_miss(wanted, {other}), "no entry of 1")) << "another name";
  far.key.target = Target::cuda(90);
  EXPECT_TRUE(says(explain_miss(wanted, {far}), "no entry of 1")) << "a GPU's";
  EXPECT_TRUE(says(explain_miss(wanted, {}), "no entries"));
}

TEST(Explain, AnEntryIsComparedWithTheCurrentTemplates) {
  TemplateStore store({}, false);
  store.add("rules/mine.cuh", "one");
  EntryHeader entry = header();
  entry.sources = {{kUnitSource, "u"}, {"rules/mine.cuh", sha256_hex("one")}};
  EXPECT_TRUE(differences(entry, renewed(entry, store, kCompiler)).empty());
  store.add("rules/mine.cuh", "two");
  EXPECT_EQ(differences(entry, renewed(entry, store, kCompiler)),
            std::vector<std::string>{"rules/mine.cuh has changed"});
  EXPECT_TRUE(differences(entry, renewed(entry, TemplateStore({}, false), kCompiler)).empty())
      << "a program may load it";
}

// The text that an engine writes to stderr at level info while it makes a kernel.
std::string log_of(Engine& engine, const std::string& unit) {
  ::testing::internal::CaptureStderr();
  engine.build(unit, "unit", Target::cpu());
  return ::testing::internal::GetCapturedStderr();
}

TEST(Explain, AMissIsExplainedInTheLog) {
  TemporaryFolder folder;
  Settings settings = settings_with_cache(folder.path());
  settings.log = LogLevel::info;
  const std::string unit = "#include \"rules/mine.cuh\"\n" + adding_unit("kMine");
  Engine engine(settings);
  engine.templates().add("rules/mine.cuh", "constexpr int kMine = 1;\n");
  EXPECT_TRUE(says(log_of(engine, unit), "unit for cpu is not in the cache: there are no entries"));
  engine.templates().add("rules/mine.cuh", "constexpr int kMine = 2;\n");
  const std::string explanation = log_of(engine, unit);
  EXPECT_TRUE(says(explanation, "differs: rules/mine.cuh has changed")) << explanation;
  Engine again(settings);
  again.templates().add("rules/mine.cuh", "constexpr int kMine = 2;\n");
  EXPECT_FALSE(says(log_of(again, unit), "not in the cache")) << "a hit needs no explanation";
  settings.log = LogLevel::warn;
  Engine quiet(settings);
  quiet.templates().add("rules/mine.cuh", "constexpr int kMine = 3;\n");
  EXPECT_EQ(log_of(quiet, unit), "");
}

TEST(Explain, BothLayersAndForeignFilesAreListed) {
  TemporaryFolder folder;
  DiskCache(in(folder / "own")).publish(key_of("a"), testing::entry_of("payload"));
  DiskCache(in(folder / "below")).publish(key_of("b"), testing::entry_of("payload"));
  const std::string damaged = entry_path(folder / "own", key_of("c"));
  testing::write_file(damaged, testing::content_of(entry_path(folder / "own", key_of("a"))));
  const std::string cut = entry_path(folder / "own", key_of("d"));
  testing::write_file(cut, testing::content_of(damaged).substr(0, 100));
  int own = 0, readonly = 0, problems = 0;
  for (const ListedEntry& entry : DiskCache(in(folder / "own", folder / "below")).list(true)) {
    ++(entry.readonly ? readonly : own);
    if (!entry.problem.empty()) ++problems;
    if (entry.file.path == damaged) {
      EXPECT_EQ(entry.problem, "its name belongs to another entry");
    } else if (entry.file.path == cut) {
      EXPECT_EQ(entry.problem, "damaged");
    }
  }
  EXPECT_EQ(own, 3);
  EXPECT_EQ(readonly, 1);
  EXPECT_EQ(problems, 2);
  EXPECT_TRUE(testing::fs::exists(cut)) << "listing changes nothing";
}

}  // namespace
}  // namespace jitstep::jit
