// The tuner's GPU on the PTX driver. Launches advance its clock, so that the test determines the winner.
#include "tuning/cuda_device.h"

#include <gtest/gtest.h>

#include <limits>

#include "jit/compiler/nvrtc_compiler.h"
#include "jit/fixtures.h"
#include "jit/tuning/tuning_files.h"
#include "jitstep/jit/state_storage.h"
#include "ptx_driver/host.h"
#include "tuning/compiled_model.h"
#include "tuning/tuner.h"

namespace jitstep::tuning {
namespace {

namespace driver = ptx::driver;
using jit::KernelConfig;
using jit::Trial;
using jit::TrialStatus;

constexpr int kFew = 64;  // block size that the tests make fast or faulty

// NVRTC, with optional faults in kernels of small blocks.
class FaultyNvrtc : public jit::Compiler {
 public:
  bool refuses = false, decays_late = false;

  jit::Binary compile(const std::string& text, const std::string& name,
                      const jit::Target& target) override {
    if (text.find("config{.threads = " + std::to_string(kFew) + ",") == text.npos)
      return real_.compile(text, name, target);
    if (refuses) throw jit::CompileError("no such block\nmore", "", "");
    std::string changed = text;
    const std::string right = "Decay::before, .caution", late = "Decay::after, .caution";
    if (decays_late) changed.replace(changed.find(right), right.size(), late);
    return real_.compile(changed, name, target);
  }
  const std::string& identity(const jit::Target& target) override { return real_.identity(target); }

 private:
  jit::NvrtcCompiler real_{jit::testing::settings_with_nvrtc("")};
};

class CudaDeviceTest : public ::testing::Test {
 protected:
  ~CudaDeviceTest() override { driver::recover(); }

  // The clock, advanced by the pretended time of the launches since the last reading.
  double read_clock() {
    for (const auto& launch : driver::take_launches())
      now += launch.entry == "baseline" || launch.block != kFew ? kUsual : of_few;
    waits.push_back(driver::calls("cuStreamSynchronize"));
    return now;
  }
  CudaDevice device(CudaLimits limits = {.order_seconds = 0}) {
    driver::take_launches();
    return CudaDevice(*engine, 0, limits, [this] { return read_clock(); });
  }
  static Workload adamw(std::int64_t elements) {
    const jit::OptionValues options("adamw");
    const jit::Plan plan = jit::resolve(options, jit::CodecChoice{"fp32"});
    return {plan, plan.at_step(options, 1), {{elements}}};
  }
  KernelConfig in_few() const {
    KernelConfig other =
        jit::default_kernel_config(work.plan, jit::Target::cuda(driver::kDevices[0]));
    other.threads = kFew;
    return other;
  }

  static constexpr double kUsual = 2e-3;
  jit::testing::TemporaryFolder folder;
  std::shared_ptr<FaultyNvrtc> nvrtc = std::make_shared<FaultyNvrtc>();
  std::unique_ptr<jit::Engine> engine = std::make_unique<jit::Engine>(
      jit::testing::settings_with_nvrtc(folder / "cache"),
      jit::Toolchain{.nvrtc = nvrtc,
                     .driver = std::make_shared<jit::CudaDriver>(jit::open_cuda_api())});
  const Workload work = adamw(3000);
  double now = 0, of_few = 1e-3;
  std::vector<std::size_t> waits;  // number of waits at each reading of the clock
};

TEST_F(CudaDeviceTest, LaterStepsUseTheConfigThatWon) {
  CudaDevice gpu = device();
  const std::string records = jit::user_records(engine->settings());
  const Tuned one = tune({work}, gpu,
                         {.strategy = "exhaustive",
                          .budget_seconds = 1e9,
                          .most_trials = 1,
                          .records = records,
                          .clock = [this] { return now; }})
                        .at(0);
  ASSERT_EQ(one.problem, "");
  EXPECT_EQ(one.record.outcome, jit::Outcome::won);
  EXPECT_EQ(one.record.config.threads, kFew);
  EXPECT_NEAR(one.record.gain, kUsual / of_few, 1e-6);
  EXPECT_EQ(one.record.hardware.name, "PTX machine");
  EXPECT_NEAR(one.record.hardware.bandwidth, moved_bytes(work) / kUsual, 1);

  tests::Gpu first(*engine), other(*engine, 1);
  const jit::StateStorage state(*first.backend, work.plan, jit::OptionValues("adamw"), {3000});
  const auto p = first.host->allocate(4 * 3000);
  const jit::Step step(*first.backend, {{work.plan, {state.tensor(p.get())}}});
  EXPECT_EQ(step.choice().match, jit::Match::exact) << step.choice().why;
  EXPECT_EQ(step.choice().config, one.record.config);
  EXPECT_EQ(other.backend->choose_config(work.plan, work.size()).match, jit::Match::none);
}

TEST_F(CudaDeviceTest, TheClockIsReadOnlyWhenNoWorkIsInFlight) {
  CudaDevice gpu = device();
  gpu.begin(work);
  const KernelConfig default_config = jit::default_kernel_config(work.plan, gpu.hardware().target);
  for (const auto& measure : {std::function<double()>([&] { return gpu.seconds(default_config); }),
                              std::function<double()>([&] { return gpu.baseline_seconds(); })}) {
    waits.clear();
    const std::size_t before = driver::calls("cuStreamSynchronize");
    EXPECT_DOUBLE_EQ(measure(), kUsual);
    EXPECT_EQ(waits, (std::vector<std::size_t>{before + 1, before + 2}));
  }
  EXPECT_EQ(driver::last_fault(), "");
}

TEST_F(CudaDeviceTest, ShortStepsAreRepeated) {
  CudaDevice gpu = device({.least_seconds = 5 * kUsual, .order_seconds = 0});
  gpu.begin(work);
  driver::take_launches();
  const std::size_t launches = driver::calls("cuLaunchKernel");
  EXPECT_DOUBLE_EQ(gpu.seconds(jit::default_kernel_config(work.plan, gpu.hardware().target)),
                   kUsual);
  EXPECT_EQ(driver::calls("cuLaunchKernel"), launches + 5);
}

TEST_F(CudaDeviceTest, AnUnusableCandidateHasAReason) {
  CudaDevice gpu = device();
  gpu.begin(work);
  const auto status = [&] {
    const auto problem = gpu.check(in_few());
    return problem ? problem->status : TrialStatus::timed;
  };
  // The two steps with the default configuration succeed.
  driver::fail("cuLaunchKernel", 701, 2);
  EXPECT_EQ(status(), TrialStatus::exceeds_resources);
  driver::recover();
  of_few = 100 * kUsual;
  EXPECT_EQ(status(), TrialStatus::timed_out);
  of_few = 1e-3;
  EXPECT_EQ(gpu.check(in_few()), std::nullopt);
}

TEST_F(CudaDeviceTest, WrongBitsAreDetected) {
  nvrtc->decays_late = true;
  CudaDevice gpu = device();
  gpu.begin(work);
  const auto problem = gpu.check(in_few());
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->status, TrialStatus::wrong_bits);
}

TEST_F(CudaDeviceTest, ACandidateThatDoesNotCompileIsLastInOrderAndNotTimed) {
  nvrtc->refuses = true;
  CudaDevice gpu = device();
  gpu.begin(work);
  const auto problem = gpu.check(in_few());
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->status, TrialStatus::does_not_compile);
  EXPECT_EQ(problem->detail, "no such block");
  // The time limit ends after two groups of candidates.
  int readings = 0;
  const auto compiled = engine->statistics().compiled;
  const Model model =
      compiled_model(*engine, work, gpu.hardware(), 1, [&] { return ++readings < 4 ? 0.0 : 2.0; });
  KernelConfig other = in_few();
  other.threads = 2 * kFew;
  EXPECT_LT(model(other), model(in_few()));
  EXPECT_EQ(model(in_few()), std::numeric_limits<double>::infinity());
  EXPECT_LE(readings, 4) << "candidates are compiled once";
  EXPECT_LE(engine->statistics().compiled - compiled,
            2 * static_cast<std::int64_t>(jit::host_hardware().units));
}

TEST_F(CudaDeviceTest, FullMemoryThrowsAndLeaksNothing) {
  const driver::Open before = driver::open_now();
  {
    CudaDevice gpu = device();
    gpu.begin(work);
    driver::fail("cuMemAlloc", 2, 3);
    const std::string message = jit::testing::error_of([&] { gpu.begin(adamw(5000)); });
    EXPECT_NE(message.find("cuMemAlloc returned CUDA_ERROR_OUT_OF_MEMORY (2). The GPU's memory is"),
              std::string::npos)
        << message;
    driver::recover();
    gpu.begin(work);
    EXPECT_GT(gpu.hardware().bandwidth, 0);
  }
  engine.reset();
  const driver::Open after = driver::open_now();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.modules, before.modules);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.streams, before.streams);
}

TEST_F(CudaDeviceTest, FindsAGpuByArchitectureAndNumber) {
  EXPECT_EQ(gpu_of(*engine, jit::Target::cuda(85), {}), 1);
  EXPECT_EQ(gpu_of(*engine, jit::Target::cuda(85), 1), 1);
  const auto refused = [&](int sm, std::optional<int> asked) {
    return jit::testing::error_of([&] { gpu_of(*engine, jit::Target::cuda(sm), asked); });
  };
  EXPECT_EQ(refused(90, {}),
            "no GPU here is sm_90: GPU 0 is sm_99, GPU 1 is sm_85, GPU 2 is sm_129");
  EXPECT_EQ(refused(85, 0), "GPU 0 is not sm_85: GPU 0 is sm_99, GPU 1 is sm_85, GPU 2 is sm_129");
  EXPECT_NE(refused(85, 7), "");
}

}  // namespace
}  // namespace jitstep::tuning
