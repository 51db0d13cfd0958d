// 32 optimizers that step concurrently in one process: many rules and every codec, with shared and separate kernels
// that are compiled, read from disk or already in memory, while threads load rules and codecs. Each must give the
// result that it gives alone. ThreadSanitizer runs this test too.
#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <thread>

#include "emulation/step_run.h"
#include "jit/fixtures.h"

namespace jitstep::jit {
namespace {

using emulation::StepCase;
using emulation::StepOutcome;
using testing::TemporaryFolder;
using Kind = Manifest::Kind;

constexpr int kThreads = 32;

// Splits the work between the caller and a new thread.
void two_threads(std::int64_t count, std::int64_t,
                 const std::function<void(std::int64_t, std::int64_t)>& body) {
  std::thread other([&] { body(count / 2, count); });
  body(0, count / 2);
  other.join();
}

// The engine and catalog of a new process, with the extensions of the tests.
struct Process {
  explicit Process(const Settings& settings) : engine(settings), catalog(engine.templates()) {}
  explicit Process(const std::string& cache) : Process(testing::settings_with_cache(cache)) {}

  void load_extensions() {
    const std::string folder = JITSTEP_TEST_DATA "/templates/extensions/";
    catalog.load_rule(folder + "layer_norms.cuh");
    catalog.load_codec(folder + "tensor_scale8.cuh");
  }

  Engine engine;
  Catalog catalog;
  CpuBackend backend{engine, two_threads};
};

StepCase step_case(const Catalog& catalog, const std::string& rule, const std::string& codec,
                   NamedValues options = {}) {
  StepCase made;
  made.spec.rule = rule;
  made.spec.state.slots.assign(catalog.rule(rule).slots.size(), CodecChoice{codec});
  made.options = std::move(options);
  made.tensors = {{.sizes = {1000}}, {.sizes = {37, 29}}, {.sizes = {5000}, .first_step = 2}};
  return made;
}

// Every codec, each with another rule, and a sum over all tensors.
std::vector<StepCase> cases(const Catalog& catalog) {
  const auto rules = catalog.names(Kind::rule), codecs = catalog.names(Kind::codec);
  std::vector<StepCase> made;
  for (std::size_t i = 0; i < codecs.size(); ++i)
    made.push_back(step_case(catalog, rules[i * rules.size() / codecs.size()], codecs[i]));
  made.push_back(step_case(catalog, "adamw", "int8", {{"max_grad_norm", 0.5}, {"amsgrad", true}}));
  return made;
}

// Different numbers for each thread, so that no result can be mistaken for another thread's.
StepCase case_of(const std::vector<StepCase>& all, int thread) {
  StepCase mine = all[static_cast<std::size_t>(thread) % all.size()];
  mine.seed = static_cast<std::uint64_t>(thread) + 1;
  return mine;
}

StepOutcome run(Process& process, const StepCase& c) {
  const KernelConfig config =
      default_kernel_config(emulation::kernel_of(c, process.catalog), Target::cpu());
  return run_case(c, process.backend, config, emulation::Grouping::kHalves, process.catalog);
}

// Loads a rule that nothing uses. The changed templates must not disturb running steps.
void load_another_rule(Process& process, const TemporaryFolder& folder, int thread) {
  const std::string name = str_cat("unused", thread), path = folder / (name + ".cuh");
  testing::write_file(
      path,
      str_cat("#pragma once\n#include \"../lang/contract.cuh\"\n",
              "namespace jitstep::rules::", name, " {\nstruct Rule {\n",
              "  KHD static void update_param(auto& e, const auto&) { e.p -= e.g; }\n", "};\n}\n"));
  process.catalog.load_rule(path);
}

// Steps all threads concurrently while they load files. Returns the result of each.
std::vector<StepOutcome> at_once(Process& process, const std::vector<StepCase>& all) {
  const TemporaryFolder folder;
  std::vector<StepOutcome> outcomes(kThreads);
  std::vector<std::thread> threads;
  std::latch start(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      process.load_extensions();
      if (i % 4 == 0) load_another_rule(process, folder, i);
      outcomes[i] = run(process, case_of(all, i));
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

void expect_equal(const std::vector<StepOutcome>& expected, const std::vector<StepOutcome>& found,
                  const char* when) {
  for (int i = 0; i < kThreads; ++i)
    EXPECT_EQ(emulation::differences(expected[i], found[i]), std::vector<emulation::Difference>())
        << "thread " << i << ", " << when;
}

TEST(Threads, ThirtyTwoConcurrentOptimizersGiveTheBitsOfOneAlone) {
  Process alone(Settings::from_environment());
  alone.load_extensions();
  const auto all = cases(alone.catalog);
  std::vector<StepOutcome> expected;
  for (int i = 0; i < kThreads; ++i) expected.push_back(run(alone, case_of(all, i)));
  const Statistics used = alone.engine.statistics();
  const std::int64_t kernels = used.compiled + used.from_disk;

  const TemporaryFolder shared;
  Process first(shared.path());
  expect_equal(expected, at_once(first, all), "an empty folder");
  EXPECT_EQ(first.engine.statistics().compiled, kernels);
  expect_equal(expected, at_once(first, all), "everything loaded");
  EXPECT_EQ(first.engine.statistics().compiled, kernels);

  Process second(shared.path());
  expect_equal(expected, at_once(second, all), "a filled folder");
  EXPECT_EQ(second.engine.statistics().compiled, 0u);
  EXPECT_EQ(second.engine.statistics().from_disk, kernels);
}

// Two engines on one empty folder stand for two processes that do not know of each other.
TEST(Threads, TwoEnginesFillOneFolderConcurrently) {
  const TemporaryFolder folder;
  Process one(folder.path()), other(folder.path());
  const std::vector<StepCase> all = {step_case(one.catalog, "adamw", "int4"),
                                     step_case(one.catalog, "lamb", "bf16")};
  std::vector<StepOutcome> left;
  std::thread elsewhere([&] { left = at_once(other, all); });
  const auto right = at_once(one, all);
  elsewhere.join();
  expect_equal(left, right, "two engines");
}

}  // namespace
}  // namespace jitstep::jit
