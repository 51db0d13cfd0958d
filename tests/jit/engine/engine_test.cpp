#include "jitstep/jit/engine.h"

#include <sys/syscall.h>

#include <chrono>
#include <thread>

#include "jit/cache/cache_entry.h"
#include "jit/cache/disk_cache.h"
#include "jit/compiler/host_compiler.h"
#include "jit/engine/module.h"
#include "jit/fixtures.h"
#include "jit/source/source_digests.h"
#include "jitstep/jit/error.h"
#include "support/child.h"

namespace jitstep::jit {
namespace {

using namespace testing;
using jitstep::testing::child_says;
using jitstep::testing::fail_system_calls;
using jitstep::testing::in_child;

// Counts and slows down the real compiler.
class SlowCompiler : public HostCompiler {
 public:
  explicit SlowCompiler(int milliseconds = 0)
      : HostCompiler(Settings::from_environment()), milliseconds_(milliseconds) {}

  Binary compile(const std::string& source, const std::string& name,
                 const Target& target) override {
    ++compiles;
    const int now = ++running_;
    for (int most = most_at_once; most < now && !most_at_once.compare_exchange_weak(most, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds_));
    --running_;
    return HostCompiler::compile(source, name, target);
  }

  std::atomic<int> compiles = 0, most_at_once = 0;

 private:
  std::atomic<int> running_ = 0;
  int milliseconds_;
};

template <class Work>
void in_threads(int count, const Work& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Engine, AUnitWithAnIncludeBecomesAKernelThatRuns) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  engine.templates().add("core/two.cuh", "#pragma once\ninline float two() { return 2; }\n");
  const std::string unit = "#include \"core/two.cuh\"\n" + adding_unit("two()");
  const auto kernel = engine.kernel(unit, "add two", Target::cpu());
  EXPECT_EQ(add_to(*kernel, 40), 42);
  EXPECT_EQ(kernel->name(), "add two");
  EXPECT_EQ(kernel->key().size(), 64u);
  EXPECT_FALSE(kernel->from_cache());
  EXPECT_GT(kernel->compile_ms(), 0);
  EXPECT_THROW(kernel->cuda("add"), Error);
  EXPECT_THROW(kernel->emulated("add"), Error);
  EXPECT_THROW(kernel->cpu("none"), Error);
}

TEST(Engine, ASecondEngineFindsTheFirstOnesBinaryOnDisk) {
  TemporaryFolder folder;
  Engine first(settings_with_cache(folder.path()));
  const auto made = first.kernel(adding_unit("1"), "unit", Target::cpu());
  first.kernel(adding_unit("1"), "unit", Target::cpu());
  EXPECT_EQ(first.statistics().compiled, 1u);
  EXPECT_EQ(first.statistics().from_memory, 1u);
  EXPECT_GT(first.statistics().compile_seconds, 0);
  Engine second(settings_with_cache(folder.path()));
  const auto found = second.kernel(adding_unit("1"), "unit", Target::cpu());
  EXPECT_TRUE(found->from_cache());
  EXPECT_EQ(found->key(), made->key());
  EXPECT_EQ(found->compile_ms(), made->compile_ms());
  EXPECT_EQ(add_to(*found, 1), 2);
  EXPECT_EQ(second.statistics().from_disk, 1u);
  EXPECT_EQ(second.statistics().compiled, 0u);
}

TEST(Engine, SixteenThreadsThatRequestOneKernelCompileItOnce) {
  TemporaryFolder folder;
  const auto compiler = std::make_shared<SlowCompiler>(50);
  Engine engine(settings_with_cache(folder.path()), {.host = compiler});
  std::vector<std::shared_ptr<const Kernel>> kernels(16);
  in_threads(16, [&](int i) {
    kernels[static_cast<std::size_t>(i)] = engine.kernel(adding_unit("1"), "unit", Target::cpu());
  });
  EXPECT_EQ(compiler->compiles, 1);
  for (const auto& kernel : kernels) EXPECT_EQ(kernel, kernels[0]);
  EXPECT_EQ(engine.statistics().from_memory, 15u);
}

TEST(Engine, DifferentKernelsCompileAtTheSameTime) {
  TemporaryFolder folder;
  const auto compiler = std::make_shared<SlowCompiler>(400);
  Engine engine(settings_with_cache(folder.path()), {.host = compiler});
  engine.build(adding_unit("9"), "warm", Target::cpu());
  in_threads(8, [&](int i) {
    const auto kernel = engine.kernel(adding_unit(str_cat(i)), str_cat("unit ", i), Target::cpu());
    EXPECT_EQ(add_to(*kernel, 1), static_cast<float>(1 + i));
  });
  EXPECT_EQ(compiler->compiles, 9);
  EXPECT_GT(compiler->most_at_once, 1);
}

TEST(Engine, UnitsThatAreBuiltTogetherCompileAtTheSameTimeAndOnce) {
  TemporaryFolder folder;
  const auto compiler = std::make_shared<SlowCompiler>(400);
  Engine engine(settings_with_cache(folder.path()), {.host = compiler});
  std::vector<NamedText> units;
  for (int i = 0; i < 4; ++i) units.push_back({adding_unit(str_cat(i)), str_cat("unit ", i)});
  engine.build_all(units, Target::cpu());
  EXPECT_EQ(compiler->compiles, 4);
  EXPECT_GT(compiler->most_at_once, std::thread::hardware_concurrency() > 1 ? 1 : 0);
  const auto kernel = engine.kernel(units[3].text, units[3].name, Target::cpu());
  EXPECT_EQ(add_to(*kernel, 1), 4);
  EXPECT_EQ(compiler->compiles, 4);
}

TEST(Engine, TheFirstFailureOfUnitsThatAreBuiltTogetherIsThrown) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  const std::vector<NamedText> units = {{adding_unit("1"), "fine"},
                                        {"int x = first;", "one"},
                                        {"int x = second;", "two"},
                                        {adding_unit("2"), "fine too"}};
  EXPECT_NE(error_of<CompileError>([&] { engine.build_all(units, Target::cpu()); }).find("first"),
            std::string::npos);
  EXPECT_EQ(engine.statistics().compiled, 2u) << "the others are there";
  EXPECT_EQ(engine.statistics().failed, 2u);
}

TEST(Engine, AFailedCompileIsRememberedInMemoryAndNeverOnDisk) {
  TemporaryFolder folder;
  const auto compiler = std::make_shared<SlowCompiler>();
  Engine engine(settings_with_cache(folder.path()), {.host = compiler});
  for (int round = 0; round < 3; ++round) {
    const std::string message = error_of<CompileError>(
        [&] { engine.kernel("int x = nothing;", "my unit", Target::cpu()); });
    EXPECT_NE(message.find(">   1 | int x = nothing;"), std::string::npos) << message;
  }
  EXPECT_THROW(engine.build("int x = nothing;", "my unit", Target::cpu()), CompileError);
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_EQ(engine.statistics().failed, 1u);
  EXPECT_TRUE(testing::files_below(folder.path()).empty());
}

TEST(Engine, AChangedCommentDoesNotRecompile) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  const std::string unit = adding_unit("1");
  const auto plain = engine.kernel(unit, "unit", Target::cpu());
  const auto commented = engine.kernel("// A comment.\n\n" + unit, "unit", Target::cpu());
  EXPECT_EQ(commented->key(), plain->key());
  EXPECT_TRUE(commented->from_cache());
  EXPECT_EQ(engine.statistics().compiled, 1u);
}

TEST(Engine, AnErrorNamesTheLineOfTheCurrentSourceAfterAComment) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  for (const char* text : {"int x = nothing;", "// A comment.\nint x = nothing;"}) {
    const std::string message =
        error_of<CompileError>([&] { engine.kernel(text, "my unit", Target::cpu()); });
    const char* const line = text[0] == '/' ? ">   2 |" : ">   1 |";
    EXPECT_NE(message.find(line), std::string::npos) << message;
  }
}

TEST(Engine, AMissingCompilerIsLookedForAgain) {
  TemporaryFolder folder;
  Settings settings = settings_with_cache(folder / "cache");
  settings.cxx = folder / "c++";
  Engine engine(settings);
  EXPECT_NE(error_of<MissingCompilerError>([&] {
              engine.kernel(adding_unit("1"), "unit", Target::cpu());
            }).find(settings.cxx),
            std::string::npos);
  fs::create_symlink("/usr/bin/c++", folder / "c++");
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1), 2);
}

TEST(Engine, AFilledCacheServesAHostWithoutACompiler) {
  TemporaryFolder folder;
  Engine(settings_with_cache(folder / "shared")).build(adding_unit("1"), "unit", Target::cpu());
  Settings settings = settings_with_cache(folder / "own");
  settings.cache_readonly = folder / "shared";
  settings.cxx = "/no/compiler";
  Engine engine(settings);
  const auto kernel = engine.kernel(adding_unit("1"), "unit", Target::cpu());
  EXPECT_TRUE(kernel->from_cache());
  EXPECT_EQ(add_to(*kernel, 1), 2);
  EXPECT_THROW(engine.kernel(adding_unit("2"), "unit", Target::cpu()), Error);
}

TEST(Engine, KeepsItsFoldersIfTheProgramChangesItsWorkingFolder) {
  TemporaryFolder folder;
  write_file(folder / "templates/rules/mine.cuh", "constexpr float kMine = 3;\n");
  EXPECT_EQ(in_child([&]() -> std::string {
              fs::current_path(folder.path());
              Settings settings = settings_with_cache("cache");
              settings.templates = "templates";
              Engine engine(settings);
              fs::current_path("/");
              const std::string unit = "#include \"rules/mine.cuh\"\n" + adding_unit("kMine");
              engine.build(unit, "unit", Target::cpu());
              return fs::exists(folder / "cache") ? "" : "the cache has moved";
            }),
            "");
}

TEST(Engine, AnAddedTemplateTakesEffect) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  const std::string unit = "#include \"rules/mine.cuh\"\n" + adding_unit("kMine");
  EXPECT_THROW(engine.kernel(unit, "unit", Target::cpu()), Error);
  for (int value : {3, 5}) {
    engine.templates().add("rules/mine.cuh", str_cat("constexpr int kMine = ", value, ";\n"));
    EXPECT_EQ(add_to(*engine.kernel(unit, "unit", Target::cpu()), 1),
              static_cast<float>(1 + value));
  }
  EXPECT_EQ(engine.statistics().compiled, 2u);
}

TEST(Engine, ADamagedEntryIsReplaced) {
  TemporaryFolder folder;
  Engine(settings_with_cache(folder.path())).build(adding_unit("1"), "unit", Target::cpu());
  const std::string file = testing::files_below(folder.path()).at(0);
  fs::resize_file(file, fs::file_size(file) / 2);
  Engine engine(settings_with_cache(folder.path()));
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1), 2);
  EXPECT_EQ(engine.statistics().compiled, 1u);
  Engine third(settings_with_cache(folder.path()));
  EXPECT_TRUE(third.kernel(adding_unit("1"), "unit", Target::cpu())->from_cache());
}

TEST(Engine, AnIntactEntryThatDoesNotLoadIsCompiledAgain) {
  TemporaryFolder folder;
  const Settings settings = settings_with_cache(folder.path());
  Engine engine(settings);
  const Key key{code_digest(engine.preprocessed_text(adding_unit("1"), "unit")), Target::cpu(),
                HostCompiler(settings).identity(Target::cpu())};
  CacheEntry bad;
  bad.binary.image.assign(1000, std::byte{1});
  DiskCache(settings).publish(key, bad);
  const auto kernel = engine.kernel(adding_unit("1"), "unit", Target::cpu());
  EXPECT_EQ(kernel->key(), key.digest());
  EXPECT_EQ(add_to(*kernel, 1), 2);
  EXPECT_EQ(engine.statistics().from_disk, 1u);
  EXPECT_EQ(engine.statistics().compiled, 1u);
  EXPECT_FALSE(engine.build(adding_unit("1"), "unit", Target::cpu())->from_cache);
  EXPECT_TRUE(Engine(settings).kernel(adding_unit("1"), "unit", Target::cpu())->from_cache());
}

// Earlier versions may have left such a file. A program that loads it dies of SIGBUS.
TEST(Engine, ATruncatedBinaryInTheCacheIsCompiledAgainAndReplaced) {
  TemporaryFolder folder;
  const Settings settings = settings_with_cache(folder.path());
  const Key key{code_digest(Engine(settings).preprocessed_text(adding_unit("1"), "unit")),
                Target::cpu(), HostCompiler(settings).identity(Target::cpu())};
  const auto whole = Engine(settings).build(adding_unit("1"), "unit", Target::cpu())->binary;
  for (const bool loaded : {true, false}) {
    CacheEntry half{"unit", whole};
    half.binary.image.resize(half.binary.image.size() / 2);
    DiskCache(settings).publish(key, half);
    const auto listed = DiskCache(settings).list(true);
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_NE(listed[0].problem.find("truncated"), std::string::npos) << listed[0].problem;
    EXPECT_EQ(in_child([&]() -> std::string {
                Engine engine(settings);
                if (loaded)
                  engine.kernel(adding_unit("1"), "unit", Target::cpu());
                else
                  engine.build(adding_unit("1"), "unit", Target::cpu());
                return engine.statistics().compiled == 1 ? "" : "it was not compiled";
              }),
              "");
    EXPECT_EQ(DiskCache(settings).list(true).at(0).problem, "");
    EXPECT_EQ(DiskCache(settings).find(key)->binary.image, whole.image);
  }
}

TEST(Engine, ATruncatedBinaryThrowsIfThereIsNoCompiler) {
  TemporaryFolder folder;
  Settings settings = settings_with_cache(folder.path());
  const Key key{code_digest(Engine(settings).preprocessed_text(adding_unit("1"), "unit")),
                Target::cpu(), HostCompiler(settings).identity(Target::cpu())};
  CacheEntry half{"unit", Engine(settings).build(adding_unit("1"), "unit", Target::cpu())->binary};
  half.binary.image.resize(half.binary.image.size() / 2);
  DiskCache(settings).publish(key, half);
  settings.cxx = "/no/compiler";
  EXPECT_EQ(in_child([&]() -> std::string {
              const std::string message = error_of<ImageError>(
                  [&] { Engine(settings).kernel(adding_unit("1"), "unit", Target::cpu()); });
              return message.find("truncated") == std::string::npos ? "it says: " + message : "";
            }),
            "");
}

TEST(Engine, AKernelThatDoesNotFitInMemoryStaysInTheCache) {
  TemporaryFolder folder;
  const Settings settings = settings_with_cache(folder.path());
  Engine(settings).build(adding_unit("1"), "unit", Target::cpu());
  EXPECT_EQ(in_child([&]() -> std::string {
              Engine engine(settings);
              engine.build(adding_unit("1"), "unit", Target::cpu());
              if (!fail_system_calls({SYS_memfd_create, SYS_mkdir, SYS_mkdirat}, EMFILE))
                return jitstep::testing::kNotAllowed;
              try {
                engine.kernel(adding_unit("1"), "unit", Target::cpu());
                return "it was loaded";
              } catch (const ImageError& error) {
                return std::string("reported as an error in the image: ") + error.what();
              } catch (const Error& error) {
                const std::string what = error.what();
                return what.find("open files") == what.npos ? what : "";
              }
            }),
            "");
  EXPECT_EQ(DiskCache(settings).list(true).size(), 1u);
  EXPECT_TRUE(Engine(settings).kernel(adding_unit("1"), "unit", Target::cpu())->from_cache());
}

TEST(Engine, ARepeatedRequestCountsOnce) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  engine.build(adding_unit("1"), "unit", Target::cpu());
  engine.kernel(adding_unit("1"), "unit", Target::cpu());
  EXPECT_EQ(engine.statistics().from_memory, 1u);
  engine.kernel(adding_unit("1"), "unit", Target::cpu());
  EXPECT_EQ(engine.statistics().from_memory, 2u);
}

TEST(Engine, AnUnwritableCacheFolderIsOneWarningAndTheKernelRuns) {
  testing::WarningCollector warnings;
  Engine engine(settings_with_cache("/dev/null/cache"));
  for (const char* term : {"1", "2"}) engine.kernel(adding_unit(term), "unit", Target::cpu());
  EXPECT_EQ(add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1), 2);
  EXPECT_EQ(warnings.messages().size(), 1u);
  EXPECT_EQ(engine.statistics().compiled, 2u);
}

TEST(Engine, AnEmulatedKernelMayCallTheProgramThatLoadsIt) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  const std::string unit =
      "extern \"C\" __attribute__((visibility(\"default\"))) void lane(const void* args) {\n"
      "  **static_cast<int* const*>(args) += 1;\n}\n";
  const auto kernel = engine.kernel(unit, "unit", Target::emulated());
  int lanes = 0;
  int* pointer = &lanes;
  for (int lane = 0; lane < 32; ++lane) kernel->emulated("lane")(&pointer);
  EXPECT_EQ(lanes, 32);
  EXPECT_NE(engine.kernel(adding_unit("1"), "unit", Target::cpu()), nullptr);
}

TEST(Engine, GpuBinariesAreBuiltAndCachedWithTheirResourcesWithoutAGpu) {
  TemporaryFolder folder;
  const std::string unit = "extern \"C\" __global__ void k(float* p) { p[threadIdx.x] += 1; }\n";
  const Settings settings = testing::settings_with_nvrtc(folder.path());
  const auto made = Engine(settings).build(unit, "unit", Target::cuda(90));
  Engine second(settings);
  const auto found = second.build(unit, "unit", Target::cuda(90));
  EXPECT_TRUE(found->from_cache);
  EXPECT_EQ(found->binary.image, made->binary.image);
  ASSERT_EQ(found->binary.resources.size(), 1u);
  EXPECT_EQ(found->binary.resources, made->binary.resources);
}

TEST(Fork, TheHostCompilerWorksInAChildEvenOfABusyParent) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()), {.host = std::make_shared<SlowCompiler>(300)});
  std::thread busy([&] { engine.kernel(adding_unit("1"), "unit", Target::cpu()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(child_says([&] {
    // A compile in progress in the parent does not finish here, so the child compiles again.
    return add_to(*engine.kernel(adding_unit("1"), "unit", Target::cpu()), 1) == 2 &&
           add_to(*engine.kernel(adding_unit("2"), "unit", Target::cpu()), 1) == 3;
  }));
  busy.join();
}

TEST(Fork, NvrtcThrowsInAChildOfAProcessThatUsedIt) {
  testing::WarningCollector no_cache_folder;
  Engine engine(testing::settings_with_nvrtc(""));
  const std::string unit = "extern \"C\" __global__ void k(float* p) { p[0] += 1; }\n";
  engine.build(unit, "unit", Target::cuda(90));
  EXPECT_TRUE(child_says([&] {
    return engine.build(unit, "unit", Target::cuda(90)) != nullptr;  // already in memory
  }));
  EXPECT_TRUE(child_says([&] {
    const std::string message =
        error_of([&] { engine.build(unit + "//\n", "unit", Target::cuda(90)); });
    return message.find("before fork()") != std::string::npos;
  }));
}

}  // namespace
}  // namespace jitstep::jit
