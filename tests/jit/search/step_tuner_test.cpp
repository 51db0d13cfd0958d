// Tuning in steps, by processes that differ in what they have. No step runs, and the times are made up.
#include "jit/search/step_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <new>

#include "jit/fixtures.h"
#include "jit/search/config_space.h"
#include "jit/tuning/tuning_files.h"
#include "jit/tuning/tuning_samples.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"

namespace jitstep::jit {
namespace {

using testing::abacus;
using testing::adamw_plan;
using testing::TemporaryFolder;

// Remembers its largest allocation.
class CountingBackend : public CpuBackend {
 public:
  using CpuBackend::CpuBackend;

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    largest = std::max(largest, bytes);
    if (bytes > limit && on_gpu) throw CudaError("out of memory", "cuMemAlloc_v2", 2);
    if (bytes > limit) throw std::bad_alloc();
    return CpuBackend::allocate(bytes);
  }

  std::size_t largest = 0;
  std::size_t limit = std::numeric_limits<std::size_t>::max();
  bool on_gpu = false;  // errors are those of the driver
};

// A process that steps tensors with one kernel.
class Process {
 public:
  Process(Engine& engine, const Hardware& hardware, Agreement agree, bool strided = false)
      : backend(engine), tuner(engine, std::move(agree)), hardware_(hardware) {
    KernelSpec spec = adamw_plan().spec;
    spec.strided = strided;
    batches_.push_back({resolve(spec), {}});
  }

  // Adds a tensor. `whole`: it is a part of a tensor of so many elements.
  void add(std::int64_t elements, std::int64_t whole = 0, bool inactive = false) {
    const OptionValues options("adamw");
    Batch& batch = batches_.front();
    const int id = static_cast<int>(states_.size());
    memory_.emplace_back(static_cast<std::size_t>(elements) + 1);
    states_.emplace_back(backend, batch.plan, options, std::vector<std::int64_t>{elements});
    batch.tensors.push_back(states_.back().tensor(memory_.back().data(), id));
    batch.tensors.back().whole = whole;
    inputs_.push_back({.g = memory_.back().data(), .inactive = inactive});
  }

  KernelConfig choose() {
    const TunerInput tables{
        backend, batches_, nullptr,
        [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }};
    if (!std::exchange(has_begun_, true)) tuner.begin(tables, hardware_);
    Step* const step =
        tuner.choose(tables, inputs_, {batches_[0].plan.at_step(OptionValues("adamw"), 1)});
    return step == nullptr ? KernelConfig{} : step->choice().config;
  }

  CountingBackend backend;
  StepTuner tuner;

 private:
  Hardware hardware_;
  std::deque<std::vector<float>> memory_;
  std::deque<StateStorage> states_;
  std::vector<Batch> batches_;
  std::vector<StepInput> inputs_;
  bool has_begun_ = false;
};

Hardware narrow() {
  Hardware made = abacus(1);
  made.architecture = "x86-64 Beads family 6 avx2";
  return made;
}

// Memory may be there in another run.
TEST(StepTuner, StepsAndStoresNoRecordIfMemoryForChecksIsMissing) {
  const TemporaryFolder folder;
  Engine engine(testing::settings_with_cache(folder.path()));
  for (const bool on_gpu : {false, true}) {
    Process process(engine, abacus(1), {});
    process.add(100000);
    process.backend.limit = 1 << 14;
    process.backend.on_gpu = on_gpu;
    int steps = 0;
    for (; steps < 1000; ++steps) {
      EXPECT_EQ(process.choose(), default_kernel_config(adamw_plan(), Target::cpu()));
      if (!process.tuner.is_trial()) break;
      process.tuner.record(1);
    }
    EXPECT_LT(steps, 1000);
    EXPECT_GT(process.backend.largest, process.backend.limit);
    EXPECT_TRUE(read_records(user_records(engine.settings())).records.empty()) << on_gpu;
  }
}

TEST(StepTuner, ProcessesTakeTheSameTrialsWhateverTheirPartsLayoutsAndHardware) {
  const TemporaryFolder folder;
  Engine engine(testing::settings_with_cache(folder.path()));
  const Plan plan = adamw_plan();
  const KernelConfig default_config = default_kernel_config(plan, Target::cpu());
  const std::vector<KernelConfig> candidates = common_candidates(plan, Target::cpu());
  // The processor of `other` has no use for it.
  const auto winner = std::find_if(candidates.begin(), candidates.end(),
                                   [](const auto& one) { return one.max_threads != 0; });
  ASSERT_NE(winner, candidates.end());
  const auto place = static_cast<std::size_t>(winner - candidates.begin());
  std::array<std::vector<std::size_t>, 2> asked;
  const auto agreement = [&](std::size_t process) {
    return [&, process](const std::vector<double>& own) {
      asked[process].push_back(own.size());
      std::vector<double> agreed(own.size(), 1.0);
      agreed[own.size() == 1 ? 0 : place] = 0.5;
      return agreed;
    };
  };
  Process one(engine, abacus(), agreement(0)), other(engine, narrow(), agreement(1), true);
  one.add(5000, 5000);
  one.add(300, 0, true);  // was active in an earlier step
  other.add(0, 5000);
  std::size_t trials = 0;
  for (; trials < 1000; ++trials) {
    one.choose();
    EXPECT_EQ(other.choose(), default_config);
    ASSERT_EQ(one.tuner.is_trial(), other.tuner.is_trial()) << trials;
    if (!one.tuner.is_trial()) break;
    one.tuner.record(1);
    other.tuner.record(2);
  }
  EXPECT_EQ(trials, 20 * (kCommonCandidates + 1));
  EXPECT_EQ(asked[0], (std::vector<std::size_t>{kCommonCandidates, 1}));
  EXPECT_EQ(asked[1], asked[0]);
  EXPECT_EQ(one.choose(), *winner);
  EXPECT_EQ(other.choose(), default_config);
}

TEST(StepTuner, AProcessWithoutElementsMeasuresNoDifference) {
  const TemporaryFolder folder;
  Engine engine(testing::settings_with_cache(folder.path()));
  std::vector<double> given;
  Process process(engine, abacus(), [&](const std::vector<double>& own) {
    given = own;
    return own;
  });
  process.add(0, 5000);
  for (int step = 0; step < 1000; ++step) {
    process.choose();
    if (!process.tuner.is_trial()) break;
    process.tuner.record(step % 3 + 1);
  }
  ASSERT_EQ(given.size(), kCommonCandidates);
  EXPECT_EQ(given.front(), kNothingMeasured);
  EXPECT_FALSE(std::filesystem::exists(folder / "tuning.jsonl"));
}

TEST(StepTuner, ChecksCandidatesOnTheLargestTensor) {
  const TemporaryFolder folder;
  Engine engine(testing::settings_with_cache(folder.path()));
  Process process(engine, abacus(), {});
  process.add(150);
  process.add(20000);
  const KernelConfig default_config = process.choose();
  process.tuner.record(1);
  process.backend.largest = 0;
  EXPECT_NE(process.choose(), default_config);
  EXPECT_GE(process.backend.largest, 2u * 16 * 256 * sizeof(float)) << "two work items";
}

}  // namespace
}  // namespace jitstep::jit
