#include "tuning/host_device.h"

#include <sys/resource.h>

#include <atomic>
#include <cstring>

#include "jit/compiler/isa.h"
#include "jit/fixtures.h"
#include "jit/search/candidate_check.h"
#include "support/child.h"
#include "tuning/fake_device.h"

namespace jitstep::tuning {
namespace {

using jit::KernelConfig;
using jit::Trial;
using jit::TrialStatus;
using testing::adamw_workload;

TEST(ThreadPool, EveryItemRunsOnceAndNoRangeIsTooSmall) {
  const jit::ParallelFor loop = thread_pool(4);
  for (const std::int64_t count : {1, 7, 64, 1000})
    for (const std::int64_t min_items : {1, 16, 5000}) {
      std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
      std::atomic<int> ranges = 0;
      loop(count, min_items, [&](std::int64_t begin, std::int64_t end) {
        ++ranges;
        for (std::int64_t i = begin; i < end; ++i) ++done[static_cast<std::size_t>(i)];
      });
      for (const auto& one : done) ASSERT_EQ(one, 1);
      EXPECT_LE(ranges, std::max<std::int64_t>(1, (count + min_items - 1) / min_items));
      EXPECT_LE(ranges, 4);
    }
  EXPECT_FALSE(thread_pool(1)) << "one thread needs no pool";
}

TEST(ThreadPool, ThatCannotStartItsThreadsIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more address space than the limit";
#endif
  EXPECT_EQ(jitstep::testing::in_child([]() -> std::string {
              rlimit memory{};
              ::getrlimit(RLIMIT_AS, &memory);
              memory.rlim_cur = rlim_t{4} << 30;  // the stacks of 10000 threads need 80 GB
              ::setrlimit(RLIMIT_AS, &memory);
              try {
                thread_pool(10000);
              } catch (const jit::Error&) {
                return "";
              }
              return "no error";
            }),
            "");
}

class HostDeviceTest : public ::testing::Test {
 protected:
  jit::testing::TemporaryFolder folder;
  jit::Engine engine{jit::testing::settings_with_cache(folder / "cache")};
  double now = 0;
  HostDevice device{
      engine, {.threads = 1, .scratch_bytes = 64 << 20}, [this] { return now += 1e-4; }};
  const Workload work = adamw_workload(9000);
  const KernelConfig default_config = jit::default_kernel_config(work.plan, jit::Target::cpu());
};

TEST_F(HostDeviceTest, ValidConfigsPassTheCheckAndAreTimedByTheClock) {
  device.begin(work);
  KernelConfig other = default_config;
  other.leaves_per_item = 4;
  other.unroll = 1;
  EXPECT_EQ(device.check(other), std::nullopt);
  // The device reads the clock before and after. The clock advances by the same time with every reading.
  EXPECT_NEAR(device.seconds(other), device.seconds(default_config), 1e-12);
  EXPECT_GT(device.hardware().bandwidth, 0);
}

TEST_F(HostDeviceTest, ShippedBaselinesAreNotTimed) {
  if (jit::this_processor().empty()) GTEST_SKIP() << "baselines exist only for x86-64";
  jit::Settings settings = jit::testing::settings_with_cache(folder / "shipped");
  settings.cpu = "x86-64-v2";
  jit::Engine others(settings);
  HostDevice(others, {.threads = 1}).begin(work);
  settings = jit::testing::settings_with_cache(folder / "cache");
  settings.cache_readonly = folder / "shipped";
  jit::Engine ours(settings);
  HostDevice(ours, {.threads = 1}).begin(work);
  EXPECT_EQ(ours.statistics().from_disk, 0u);
}

TEST_F(HostDeviceTest, AWorkloadWithTooMuchScratchIsRejectedBeforeItIsAllocated) {
  const std::string message =
      jit::testing::error_of([&] { device.begin(adamw_workload(1 << 30)); });
  EXPECT_NE(message.find("needs 32768 MiB of scratch memory, more than the limit of 64 MiB"),
            std::string::npos)
      << message;
}

TEST_F(HostDeviceTest, AStepOfAdamWMoves28BytesPerParameter) {
  EXPECT_EQ(moved_bytes(adamw_workload(1000)), 28000);
}

TEST_F(HostDeviceTest, AConfigThatViolatesTheConstraintsIsNotTimed) {
  device.begin(work);
  KernelConfig other = default_config;
  other.leaves_per_item = 3;
  const auto problem = device.check(other);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->status, TrialStatus::exceeds_resources);
}

// A back end whose unrolled kernels do not compile, or decay the weights after the update.
class FaultyBackend : public jit::CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  bool rejects = false;

  std::shared_ptr<const jit::Kernel> load(const std::string& translation_unit,
                                          const std::string& name) override {
    std::string text = translation_unit;
    if (text.find("unroll-loops") == std::string::npos) return CpuBackend::load(text, name);
    if (rejects) throw jit::CompileError("no such loop\nmore", "", "");
    const std::string right = "::before";
    return CpuBackend::load(text.replace(text.find(right), right.size(), "::after"), name);
  }
};

TEST_F(HostDeviceTest, WrongBitsAndFailedCompilesAreFound) {
  FaultyBackend backend(engine);
  const jit::Candidate kernel{work.plan, work.numbers, {9000}};
  const auto problem_of = [&](const KernelConfig& candidate) {
    return jit::check_candidate(
        backend, kernel, default_config, candidate,
        [](void* to, const void* from, std::size_t n) { std::memcpy(to, from, n); });
  };
  KernelConfig other = default_config;
  other.leaves_per_item = 64;
  EXPECT_EQ(problem_of(other), std::nullopt);
  other.unroll = 1;
  const auto wrong = problem_of(other);
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->status, TrialStatus::wrong_bits);
  EXPECT_NE(wrong->detail.find("differs from the result of the default"), std::string::npos);
  backend.rejects = true;
  const auto failed = problem_of(other);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->status, TrialStatus::does_not_compile);
  EXPECT_EQ(failed->detail, "no such loop");
}

TEST(ResourceProblem, NamesSpillsAndExceededResources) {
  const KernelConfig config = {256, 32, 4, 16};
  jit::Resources entry{.entry = "jitstep_apply", .registers = 255};
  EXPECT_EQ(jit::resource_problem(config, {entry}), std::nullopt);
  EXPECT_EQ(jit::resource_problem({512, 32, 4, 16}, {entry})->status,
            TrialStatus::exceeds_resources);
  entry.spill_store_bytes = 8;
  const auto problem = jit::resource_problem(config, {entry});
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->status, TrialStatus::spills);
  EXPECT_EQ(problem->detail, "jitstep_apply spills 8 bytes");
  EXPECT_EQ(jit::largest_spill({entry, {.entry = "jitstep_clear"}}), 8);
  EXPECT_EQ(jit::resource_problem(config, {entry}, 8), std::nullopt) << "as the default does";
  entry = {.entry = "jitstep_apply", .registers = 32, .shared_bytes = 64 << 10};
  EXPECT_EQ(jit::resource_problem(config, {entry})->status, TrialStatus::exceeds_resources);
}

}  // namespace
}  // namespace jitstep::tuning
