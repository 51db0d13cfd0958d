// Kernels compiled for CPU baselines: which one jitstep uses with and without a compiler, and their bits.
#include <algorithm>
#include <utility>

#include "jit/cache/cache_fixtures.h"
#include "jit/compiler/host_compiler.h"
#include "jit/compiler/isa.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

using namespace testing;

// The CPU that an entry was compiled for.
std::string cpu_of(const std::string& compiler) {
  const std::size_t at = compiler.rfind(" -march=");
  return at == compiler.npos ? "" : compiler.substr(at + 8, compiler.find(' ', at + 1) - at - 8);
}

class Baseline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (this_processor().empty()) GTEST_SKIP() << "baselines are of x86-64";
    for (const char* cpu : {"x86-64-v2", "x86-64-v3"})
      if (!runs(cpu)) GTEST_SKIP() << "this machine does not run " << cpu;
  }

  static bool runs(const std::string& cpu) {
    Settings settings = settings_of_this_computer("");
    settings.cpu = cpu;
    HostCompiler compiler(settings);
    return this_machine_lacks(compiler.identity(Target::cpu())).empty();
  }

  void warm(const std::string& cache, const std::string& cpu,
            const std::string& unit = adding_unit("1")) {
    Settings settings = settings_of_this_computer(folder / cache);
    settings.cpu = cpu;
    Engine(settings).build(unit, "unit", Target::cpu());
  }

  Settings without_compiler() const {
    Settings settings = with_compiler();
    settings.cxx = "/no/compiler";
    return settings;
  }
  Settings with_compiler() const {
    Settings settings = settings_of_this_computer(folder / "own");
    settings.cache_readonly = folder / "shipped";
    return settings;
  }

  // The CPU that the kernel of a program with these settings was compiled for, after the kernel has run.
  std::string used(const Settings& settings) {
    Engine engine(settings);
    const auto kernel = engine.kernel(adding_unit("1"), "unit", Target::cpu());
    EXPECT_EQ(add_to(*kernel, 1), 2);
    for (const ListedEntry& entry : DiskCache(settings).list(true))
      if (entry.header && entry.header->key.digest() == kernel->key())
        return cpu_of(entry.header->key.compiler);
    return "none of the cache";
  }

  TemporaryFolder folder;
};

TEST_F(Baseline, ServesAProgramWithoutACompiler) {
  warm("shipped", "x86-64-v3");
  EXPECT_EQ(used(without_compiler()), "x86-64-v3");
}

TEST_F(Baseline, OfAPackageServesOnlyAProgramWithoutACompiler) {
  warm("shipped", "x86-64-v3");
  for (Settings settings : {without_compiler(), with_compiler()}) {
    const bool has_compiler = settings.cxx != "/no/compiler";
    settings.packaged_kernels = std::exchange(settings.cache_readonly, "");
    EXPECT_EQ(used(settings), has_compiler ? "native" : "x86-64-v3");
  }
}

TEST_F(Baseline, TheHighestThatTheCpuRunsIsUsedAndNativeCodeIsPreferred) {
  for (const char* cpu : {"x86-64-v2", "x86-64", "x86-64-v4", "x86-64-v3"}) warm("shipped", cpu);
  const std::string highest = runs("x86-64-v4") ? "x86-64-v4" : "x86-64-v3";
  EXPECT_EQ(used(without_compiler()), highest);
  Settings settings = without_compiler();
  settings.cpu = "x86-64-v2";
  EXPECT_EQ(used(settings), "x86-64-v2") << "JITSTEP_CPU selects it";
  warm("shipped", "");
  EXPECT_EQ(used(without_compiler()), "native");
}

TEST_F(Baseline, InTheReadOnlyLayerSavesACompile) {
  warm("shipped", "x86-64-v3");
  EXPECT_EQ(used(with_compiler()), "x86-64-v3");
  Settings settings = with_compiler();
  settings.cpu = "native";
  EXPECT_EQ(used(settings), "native") << "JITSTEP_CPU selects it";
  EXPECT_EQ(used(with_compiler()), "native") << "the own folder now has it";
}

TEST_F(Baseline, IsNotUsedByAnEngineThatSkipsBaselines) {
  warm("shipped", "x86-64-v3");
  Engine engine(with_compiler());
  const auto key = [&] { return engine.build(adding_unit("1"), "unit", Target::cpu())->key; };
  const std::string baseline = key();
  engine.skip_baselines();
  EXPECT_NE(key(), baseline) << "though it is in memory";
  EXPECT_EQ(engine.statistics().compiled, 1u);
  EXPECT_EQ(used(with_compiler()), "native");
}

TEST_F(Baseline, InTheUsersFolderIsNotUsedIfThereIsACompiler) {
  warm("own", "x86-64-v3");
  EXPECT_EQ(used(with_compiler()), "native");
  fs::remove_all(folder / "own");
  warm("own", "x86-64-v3");
  EXPECT_EQ(used(without_compiler()), "x86-64-v3");
}

TEST_F(Baseline, AboveTheCpusIsaIsCompiledAndNeverRun) {
  if (runs("x86-64-v4")) GTEST_SKIP() << "this CPU runs all";
  Settings settings = with_compiler();
  settings.cpu = "x86-64-v4";
  Engine engine(settings);
  EXPECT_FALSE(engine.build(adding_unit("1"), "unit", Target::cpu())->binary.image.empty());
  const std::string message =
      error_of([&] { engine.kernel(adding_unit("1"), "unit", Target::cpu()); });
  for (const char* part : {"unit", "JITSTEP_CPU=x86-64-v4", "avx512f"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Baseline, AMissWithoutACompilerNamesKernelFoldersAndReason) {
  const auto miss = [&](const Settings& settings) {
    Engine engine(settings);
    return error_of([&] { engine.kernel(adding_unit("1"), "unit", Target::cpu()); });
  };
  const auto expect = [](const std::string& message, std::vector<std::string> parts) {
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  };
  Settings settings = without_compiler();
  fs::create_directory(folder / "shipped");
  expect(miss(settings), {"unit for cpu", folder / "own", folder / "shipped",
                          "there are no entries", "/no/compiler"});
  warm("shipped", "", adding_unit("2"));
  const std::string entry = files_below(folder / "shipped", ".jsk").front();
  ::chmod(entry.c_str(), 0666);
  expect(miss(settings), {"there are no entries. 1 file cannot be used", entry, "chmod go-w"});
  ::chmod(entry.c_str(), 0600);
  expect(miss(settings), {"the most similar of 1", "x[i] += 1", "x[i] += 2"});
  warm("shipped", "x86-64-v3");
  settings.cpu = "x86-64-v2";
  expect(miss(settings), {"the most similar of 2", "it was compiled for x86-64-v3", "x86-64-v2"});
  settings.cpu.clear();
  settings.check = true;
  expect(miss(settings), {"its compiler options differ"});
  if (runs("x86-64-v4")) return;
  fs::remove_all(folder / "shipped");
  warm("shipped", "x86-64-v4");
  settings.check = false;
  expect(miss(settings), {"another CPU", "avx512f"});
}

TEST_F(Baseline, TheLogHasTheSameReason) {
  Settings settings = without_compiler();
  settings.log = LogLevel::info;
  warm("shipped", "", adding_unit("2"));
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(Engine(settings).kernel(adding_unit("1"), "unit", Target::cpu()), Error);
  const std::string log_text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log_text.find("unit for cpu is not in"), std::string::npos) << log_text;
  EXPECT_NE(log_text.find("it was generated with"), std::string::npos) << log_text;
}

// Three steps of a rule with kernels for a CPU. Returns the parameters, which depend on codes and metadata of the steps
// before.
std::vector<float> stepped(const std::string& folder, const std::string& cpu,
                           const std::string& rule, const std::string& codec) {
  constexpr std::int64_t kSize = 5003;
  Settings settings = settings_of_this_computer(folder);
  settings.cpu = cpu;
  Engine engine(settings);
  CpuBackend backend(engine);
  OptionValues options(rule);
  Formats formats;
  formats.state = CodecChoice{codec};
  const Plan plan = resolve(options, formats, {.dims = 1, .elements = kSize});
  const StateStorage state(backend, plan, options, {kSize});
  std::vector<float> p(kSize), g(kSize);
  for (std::int64_t i = 0; i < kSize; ++i) {
    p[i] = static_cast<float>(i % 97) / 31 - 1;
    g[i] = static_cast<float>((i * 7919) % 1009) / 503 - 1;
  }
  Step step(backend, {{plan, {state.tensor(p.data())}}});
  for (const int t : {1, 2, 3})
    step.run({{.g = g.data()}}, {options.at_step(t)}, [](const auto&) {});
  return p;
}

TEST_F(Baseline, HasTheBitsOfNativeCode) {
  for (const auto& [rule, codec] : {std::pair("adamw", "int8"), std::pair("lamb", "bf16_sr")}) {
    const std::vector<float> native = stepped(folder.path(), "native", rule, codec);
    for (const char* cpu : {"x86-64-v2", "x86-64-v3"})
      EXPECT_EQ(stepped(folder.path(), cpu, rule, codec), native) << rule << codec << cpu;
  }
}

}  // namespace
}  // namespace jitstep::jit
