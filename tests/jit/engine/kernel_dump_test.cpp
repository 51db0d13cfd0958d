#include "jit/engine/kernel_dump.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "jit/base/file_io.h"
#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/host_compiler.h"
#include "jit/source/source_digests.h"

namespace jitstep::jit {
namespace {

using namespace testing;
using Names = std::vector<std::string>;

struct Dump {
  Settings settings() const {
    Settings made = settings_with_cache(folder / "cache");
    made.dump_folder = folder / "dump";
    return made;
  }
  Settings overriding() const {
    Settings made = settings_with_cache(folder / "cache");
    made.override_folder = folder / "dump";
    return made;
  }
  // The only file of that name in the dump.
  std::string file(const std::string& name) const {
    const auto found = files_below(folder / "dump", "/" + name);
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? "" : found[0];
  }
  void edit(const std::string& from, const std::string& to) const {
    std::string text = content_of(file("flat.cuh"));
    text.replace(text.find(from), from.size(), to);
    write_file(file("flat.cuh"), text);
  }

  TemporaryFolder folder;
};

TEST(KernelDump, HasTheSourcesTheBinaryTheLogAndTheResources) {
  Dump dump;
  Engine engine(dump.settings());
  engine.templates().add("core/two.cuh", "#pragma once\ninline float two() { return 2; }\n");
  const std::string unit = "#include \"core/two.cuh\"\n" + adding_unit("two()");
  const auto kernel = engine.kernel(unit, "my/unit", Target::cpu());
  EXPECT_EQ(content_of(dump.file("unit.cuh")), unit);
  const std::string preprocessed = content_of(dump.file("flat.cuh"));
  EXPECT_EQ(preprocessed, engine.preprocessed_text(unit, "my/unit"));
  EXPECT_EQ(preprocessed, *kernel->built()->text);
  EXPECT_EQ(kernel->built()->unit, unit);
  EXPECT_TRUE(
      dump.file("flat.cuh")
          .ends_with("/dump/my_unit-" + code_digest(preprocessed).substr(0, 12) + "/flat.cuh"));
  EXPECT_EQ(content_of(dump.file("cpu.so")), text_of(kernel->built()->binary.image));
  EXPECT_EQ(content_of(dump.file("cpu.log")), kernel->built()->binary.log);
  const auto summary = nlohmann::json::parse(content_of(dump.file("cpu.json")));
  EXPECT_EQ(summary.at("key"), kernel->key());
  EXPECT_EQ(summary.at("target"), "cpu");
  EXPECT_EQ(summary.at("bytes"), kernel->built()->binary.image.size());
  EXPECT_EQ(files_below(dump.folder / "dump").size(), 5u) << "no other file remains";
}

TEST(KernelDump, OfASourceThatDoesNotCompileHasTheWholeOutputOfTheCompiler) {
  Dump dump;
  Engine engine(dump.settings());
  std::string log;
  try {
    engine.kernel("int x = nothing;", "unit", Target::cpu());
    FAIL() << "it compiled";
  } catch (const CompileError& error) {
    log = error.log();
  }
  EXPECT_EQ(content_of(dump.file("cpu.failed.log")), log);
  EXPECT_NE(log.find("nothing"), std::string::npos);
  EXPECT_EQ(content_of(dump.file("unit.cuh")), "int x = nothing;");
  EXPECT_EQ(files_below(dump.folder / "dump").size(), 3u) << "no summary: there is no binary";
}

TEST(KernelDump, OfAKernelFromTheCacheIsTheSame) {
  Dump dump;
  Engine(settings_with_cache(dump.folder / "cache"))
      .build(adding_unit("1"), "my_unit", Target::cpu());
  Engine engine(dump.settings());
  EXPECT_TRUE(engine.build(adding_unit("1"), "my_unit", Target::cpu())->from_cache);
  EXPECT_EQ(content_of(dump.file("unit.cuh")), adding_unit("1"));
}

TEST(KernelDump, ThePreprocessedSourceCompilesAloneToTheSameBinary) {
  Dump dump;
  Engine(dump.settings()).build(adding_unit("1"), "my_unit", Target::cpu());
  const Binary alone = HostCompiler(Settings::from_environment())
                           .compile(content_of(dump.file("flat.cuh")), "alone", Target::cpu());
  EXPECT_EQ(text_of(alone.image), content_of(dump.file("cpu.so")));
}

TEST(KernelDump, IntoAFileIsOneWarning) {
  Dump dump;
  write_file(dump.folder / "dump", "a file");
  WarningCollector warnings;
  Engine engine(dump.settings());
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("1"), "one", Target::cpu()), 1), 2);
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("2"), "two", Target::cpu()), 1), 3);
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_TRUE(warnings.messages()[0].starts_with("JITSTEP_DUMP: cannot create the folder "))
      << warnings.messages()[0];
}

TEST(KernelDump, DoesNotOverwriteAnEditedSource) {
  Dump dump;
  Engine(dump.settings()).build(adding_unit("1"), "my_unit", Target::cpu());
  dump.edit("+= 1", "+= 2");
  const std::string edited = content_of(dump.file("flat.cuh"));
  Engine(dump.settings()).build(adding_unit("1"), "my_unit", Target::cpu());
  EXPECT_EQ(content_of(dump.file("flat.cuh")), edited);
}

TEST(KernelDump, OfAnotherCompilerReplacesTheBinaryAndAnEarlierFailure) {
  Dump dump;
  Settings settings = dump.settings();
  Engine(settings).build(adding_unit("1"), "my_unit", Target::cpu());
  write_file(fs::path(dump.file("cpu.so")).replace_filename("cpu.failed.log"), "an old error");
  settings.cpu = "x86-64";
  const auto built = Engine(settings).build(adding_unit("1"), "my_unit", Target::cpu());
  EXPECT_EQ(content_of(dump.file("cpu.so")), text_of(built->binary.image));
  EXPECT_EQ(nlohmann::json::parse(content_of(dump.file("cpu.json"))).at("key"), built->key);
  EXPECT_EQ(files_below(dump.folder / "dump", "/cpu.failed.log"), Names());
  EXPECT_EQ(files_below(dump.folder / "dump").size(), 5u);
}

TEST(KernelOverride, RunsTheEditedSourceAndLogsIt) {
  Dump dump;
  Engine(dump.settings()).build(adding_unit("1"), "my_unit", Target::cpu());
  dump.edit("+= 1", "+= 2");
  WarningCollector warnings;
  Engine engine(dump.overriding());
  const auto kernel = engine.kernel(adding_unit("1"), "my_unit", Target::cpu());
  EXPECT_EQ(add_to(*kernel, 1), 3);
  EXPECT_EQ(*kernel->built()->text, content_of(dump.file("flat.cuh")));
  ASSERT_EQ(warnings.messages().size(), 1u);
  EXPECT_TRUE(warnings.messages()[0].starts_with("JITSTEP_OVERRIDE: my_unit uses"))
      << warnings.messages()[0];
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("5"), "my_unit", Target::cpu()), 1), 6)
      << "it is for the text that it was written from alone";
}

TEST(KernelOverride, DoesNotChangeTheCacheEntryOfTheOriginalSource) {
  Dump dump;
  Engine(dump.settings()).build(adding_unit("1"), "my_unit", Target::cpu());
  dump.edit("+= 1", "+= 2");
  WarningCollector warnings;
  Engine(dump.overriding()).build(adding_unit("1"), "my_unit", Target::cpu());
  Engine plain(settings_with_cache(dump.folder / "cache"));
  const auto kernel = plain.kernel(adding_unit("1"), "my_unit", Target::cpu());
  EXPECT_TRUE(kernel->from_cache());
  EXPECT_EQ(add_to(*kernel, 1), 2);
}

TEST(KernelOverride, OfAnUneditedSourceDoesNothing) {
  Dump dump;
  Engine(dump.settings()).build(adding_unit("1"), "my_unit", Target::cpu());
  WarningCollector warnings;
  Engine engine(dump.overriding());
  EXPECT_TRUE(engine.build(adding_unit("1"), "my_unit", Target::cpu())->from_cache);
  EXPECT_EQ(warnings.messages(), Names());
}

TEST(KernelOverride, ByAMissingFolderDoesNothing) {
  Dump dump;
  Engine engine(dump.overriding());
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("1"), "my_unit", Target::cpu()), 1), 2);
}

TEST(KernelOverride, ThatOthersMayWriteToIsRejected) {
  Dump dump;
  Engine(dump.settings()).build(adding_unit("1"), "my_unit", Target::cpu());
  dump.edit("+= 1", "+= 2");
  ::chmod(dump.file("flat.cuh").c_str(), 0666);
  Engine engine(dump.overriding());
  EXPECT_NE(error_of([&] {
              engine.build(adding_unit("1"), "my_unit", Target::cpu());
            }).find("chmod go-w"),
            std::string::npos);
}

}  // namespace
}  // namespace jitstep::jit
