// The driver as a program sees it: launches, devices, streams, exhausted memory, and errors of every call.
#include "jit/engine/cuda_driver.h"
#include "jit/engine/engine_parts.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "jitstep/jit/error.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"
#include "ptx_driver/host.h"
#include "support/bits.h"

extern "C" {
int cuModuleLoadData(void** module, const void* image);
int cuModuleGetFunction(void** function, void* module, const char* name);
int cuModuleUnload(void* module);
int cuStreamBeginCapture_v2(void* stream, int mode);
int cuStreamEndCapture(void* stream, void** graph);
int cuGraphDestroy(void* graph);
int cuLaunchKernel(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void* stream, void** params, void** residual);
}

namespace jitstep::tests {
namespace {

using emulation::Difference;
using emulation::StepCase;
using emulation::StepRun;

// Makes engines with their own driver, like a new process.
class PtxDriver : public testing::Test {
 protected:
  ~PtxDriver() override { driver::recover(); }

  static std::unique_ptr<jit::Engine> engine() {
    return std::make_unique<jit::Engine>(
        jit::Settings::from_environment(),
        jit::Toolchain{.driver = std::make_shared<jit::CudaDriver>(jit::open_cuda_api())});
  }
  static std::vector<std::string> entries() {
    std::vector<std::string> names;
    for (const auto& launch : driver::take_launches()) names.push_back(launch.entry);
    return names;
  }

  const StepCase clipped{.spec = support::spec_of("lamb", "int8"),
                         .options = {{"max_grad_norm", 0.5}},
                         .tensors = {{.sizes = {4097}}, {.sizes = {31}}},
                         .steps = 2};

  emulation::StepOutcome run(jit::Engine& engine, const StepCase& c, int device = 0) {
    Gpu gpu(engine, device);
    return run_case(c, gpu.device(),
                    jit::default_kernel_config(kernel_of(c), gpu.backend->target()));
  }
};

using Names = std::vector<std::string>;

TEST_F(PtxDriver, LaunchesOnceForAllTensorsOfAKernelAndTwiceForAPass) {
  const auto own = engine();
  StepCase many{
      .spec = support::spec_of("adamw", "fp32"), .options = {}, .tensors = {}, .steps = 2};
  for (int k = 0; k < 300; ++k) many.tensors.push_back({.sizes = {1 + 7 * k}});
  driver::take_launches();
  run(*own, many);
  EXPECT_EQ(entries(), (Names{"jitstep_apply", "jitstep_apply"}));
  many.spec = support::spec_of("lamb", "fp32");
  many.steps = 1;
  run(*own, many);
  EXPECT_EQ(entries(), (Names{"jitstep_partials_0", "jitstep_finalize_0", "jitstep_apply"}));
}

TEST_F(PtxDriver, MovesTheBytesOfTheFormats) {
  const auto own = engine();
  constexpr std::int64_t kElements = 1 << 16;
  const auto bytes_per_element = [&](const StepCase& c) {
    driver::take_launches();
    run(*own, c);
    std::uint64_t sectors = 0;
    for (const auto& launch : driver::take_launches())
      sectors += launch.counts.sectors_read + launch.counts.sectors_written;
    return static_cast<double>(32 * sectors) / static_cast<double>(kElements);
  };
  // A step reads and writes p, m and v, and reads g. Tables and scales are a few sectors per tile.
  const std::vector<emulation::TensorCase> one = {{.sizes = {kElements}}};
  const double fp32 = bytes_per_element(
      {.spec = support::spec_of("adamw", "fp32"), .options = {}, .tensors = one, .steps = 1});
  EXPECT_GE(fp32, 28);
  EXPECT_LE(fp32, 30);
  const double int8 = bytes_per_element(
      {.spec = support::spec_of("adamw", "int8"), .options = {}, .tensors = one, .steps = 1});
  EXPECT_GE(int8, 16);
  EXPECT_LE(int8, 22);
}

TEST_F(PtxDriver, StepsOnEachOfItsDevices) {
  const auto own = engine();
  EXPECT_EQ(driver_of(*own).device_count(), static_cast<int>(std::size(driver::kDevices)));
  const auto first = run(*own, clipped, 0);
  for (int device = 1; device < driver_of(*own).device_count(); ++device) {
    driver::take_launches();
    EXPECT_EQ(differences(first, run(*own, clipped, device)), std::vector<Difference>()) << device;
    for (const auto& launch : driver::take_launches()) EXPECT_EQ(launch.device, device);
  }
}

TEST_F(PtxDriver, ADestroyedEngineLeaksNothing) {
  const driver::Open before = driver::open_now();
  {
    const auto own = engine();
    run(*own, clipped);
    EXPECT_GT(driver::open_now().modules, before.modules);
  }
  const driver::Open after = driver::open_now();
  EXPECT_EQ(after.modules, before.modules);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.events, before.events);
}

// ---- errors

// The message of the exception, or empty.
std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_F(PtxDriver, MayRunOutOfMemoryAtAnyAllocation) {
  const auto own = engine();
  const auto expected = run(*own, clipped);
  const driver::Open before = driver::open_now();
  int spared = 0;
  for (;; ++spared) {
    driver::fail("cuMemAlloc", 2, spared);
    const bool failed = !error_of([&] { run(*own, clipped); }).empty();
    driver::recover();
    const driver::Open after = driver::open_now();
    EXPECT_EQ(after.allocations, before.allocations) << spared;
    EXPECT_EQ(after.events, before.events) << spared;
    if (!failed) break;
  }
  EXPECT_GT(spared, 20);
  EXPECT_EQ(differences(expected, run(*own, clipped)), std::vector<Difference>());
}

// Whether a step succeeds even if this call fails.
bool is_forgiven(const std::string& call) {
  return call == "cuModuleUnload" || call == "cuEventDestroy" || call == "cuEventRecord" ||
         call == "cuStreamWaitEvent" || call == "cuCtxGetCurrent" || call == "cuCtxPushCurrent" ||
         call == "cuCtxPopCurrent" || call == "cuDeviceGetCount";
}

TEST_F(PtxDriver, MayReturnAnErrorFromAnyCall) {
  const auto expected = run(*engine(), clipped);
  for (const std::string& call : driver::function_names()) {
    SCOPED_TRACE(call);
    const driver::Open before = driver::open_now();
    driver::fail(call, 999);
    const std::string error = error_of([&] { run(*engine(), clipped); });
    EXPECT_TRUE(error.empty() ? is_forgiven(call)
                              : error.find("cu") != error.npos || call == "cuMemAlloc")
        << error;
    driver::recover();
    const driver::Open after = driver::open_now();
    EXPECT_EQ(after.contexts, before.contexts);
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.modules, before.modules);
    EXPECT_EQ(after.events, before.events);
    EXPECT_EQ(differences(expected, run(*engine(), clipped)), std::vector<Difference>());
  }
}

// ---- direct calls: streams and invalid images

const char kStore[] =
    ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry store(.param .u64 to)\n{\n.reg "
    ".b32 %r<3>;\n"
    ".reg .b64 %rd<4>;\nld.param.u64 %rd1, [to];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, "
    "4;\n"
    "add.s64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r1;\nret;\n}\n";
const char kLoad[] =
    ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry load(.param .u64 from)\n{\n"
    ".reg .b32 %r<3>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [from];\nld.global.u32 %r1, [%rd1];\n"
    "ret;\n}\n";

class PtxStreams : public PtxDriver {
 protected:
  PtxStreams() {
    void* context = nullptr;
    api.cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    EXPECT_EQ(cuModuleLoadData(&module, kStore), 0);
    EXPECT_EQ(cuModuleGetFunction(&function, module, "store"), 0);
    EXPECT_EQ(cuMemAlloc_v2(&memory, 256), 0);
    for (void*& stream : streams) EXPECT_EQ(cuStreamCreate(&stream, kNewStreamsOwn), 0);
  }
  ~PtxStreams() override {
    driver::recover();
    cuModuleUnload(module);
    cuMemFree_v2(memory);
    for (void* stream : streams) cuStreamDestroy_v2(stream);
  }
  int launch(void* stream) {
    void* params[] = {&memory};
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr);
  }

  void *module = nullptr, *function = nullptr, *streams[2] = {};
  unsigned long long memory = 0;
  const jit::CudaApi api = jit::open_cuda_api();
};

TEST_F(PtxStreams, ThatAreNotOrderedMustNotTouchTheSameMemory) {
  EXPECT_EQ(launch(streams[0]), 0);
  EXPECT_EQ(launch(streams[0]), 0);
  EXPECT_EQ(launch(streams[1]), 719);
  EXPECT_NE(driver::last_fault().find("has written, with no barrier or order"), std::string::npos);
  EXPECT_EQ(launch(streams[0]), 719) << "a context stays broken";
}

TEST_F(PtxStreams, AllReadersOfEarlierLaunchesMustBeOrderedBeforeAWrite) {
  void *own = nullptr, *load = nullptr, *event = nullptr;
  ASSERT_EQ(cuModuleLoadData(&own, kLoad), 0);
  ASSERT_EQ(cuModuleGetFunction(&load, own, "load"), 0);
  ASSERT_EQ(api.cuEventCreate(&event, 0), 0);
  void* params[] = {&memory};
  EXPECT_EQ(launch(streams[0]), 0);
  EXPECT_EQ(cuStreamSynchronize(streams[0]), 0);
  for (void* const stream : streams)
    EXPECT_EQ(cuLaunchKernel(load, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr), 0);
  EXPECT_EQ(launch(streams[1]), 719);
  EXPECT_NE(driver::last_fault().find("has read"), std::string::npos) << driver::last_fault();
  driver::recover();
  cuModuleUnload(own);
  api.cuEventDestroy(event);
}

TEST_F(PtxStreams, ADownloadMustBeOrderedAfterTheWrite) {
  std::array<float, 32> values{};
  EXPECT_EQ(launch(streams[0]), 0);
  EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), memory, sizeof values), 719);
  driver::recover();
  EXPECT_EQ(cuStreamSynchronize(streams[0]), 0);
  EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), memory, sizeof values), 0);
}

TEST_F(PtxStreams, WorkOfADestroyedStreamIsOverAfterTheDeviceIsSynchronized) {
  std::array<float, 32> values{};
  void* stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, kNewStreamsOwn), 0);
  EXPECT_EQ(launch(stream), 0);
  EXPECT_EQ(cuStreamDestroy_v2(stream), 0);
  EXPECT_EQ(cuCtxSynchronize(), 0);
  EXPECT_EQ(cuMemcpyDtoH_v2(values.data(), memory, sizeof values), 0);
}

TEST_F(PtxStreams, ALaunchWithTooManyThreadsFailsAlone) {
  void* params[] = {&memory};
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, streams[0], params, nullptr), 1);
  EXPECT_EQ(cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, streams[0], params, nullptr), 1);
  EXPECT_EQ(launch(streams[0]), 0);
}

TEST_F(PtxStreams, ACaptureIsInvalidatedByCallsThatMayWait) {
  const auto capture = [&](int mode, const std::function<int()>& call) {
    void* graph = nullptr;
    int status = 0;
    EXPECT_EQ(cuStreamBeginCapture_v2(streams[0], mode), 0);
    EXPECT_EQ(launch(streams[0]), 0);
    const int code = call();
    EXPECT_EQ(api.cuStreamIsCapturing(streams[0], &status), 0);
    EXPECT_EQ(status, code == 0 ? 1 : 2);
    EXPECT_EQ(cuStreamEndCapture(streams[0], &graph), code == 0 ? 0 : 901);
    EXPECT_EQ(graph != nullptr, code == 0);
    if (graph != nullptr) cuGraphDestroy(graph);
    return code;
  };
  constexpr int kThreadLocal = 1, kRelaxed = 2;
  void* other = nullptr;
  const auto load = [&] { return cuModuleLoadData(&other, kLoad); };
  EXPECT_EQ(capture(kThreadLocal, load), 900);
  EXPECT_EQ(capture(kThreadLocal, cuCtxSynchronize), 900);
  EXPECT_EQ(capture(kRelaxed, cuCtxSynchronize), 900);
  EXPECT_EQ(capture(kRelaxed, load), 0);
  cuModuleUnload(other);
  EXPECT_EQ(launch(streams[0]), 0);
}

TEST_F(PtxStreams, AreOrderedByEventsAndByTheHost) {
  void* event = nullptr;
  ASSERT_EQ(api.cuEventCreate(&event, 0), 0);
  EXPECT_EQ(launch(streams[0]), 0);
  EXPECT_EQ(api.cuEventRecord(event, streams[0]), 0);
  EXPECT_EQ(api.cuStreamWaitEvent(streams[1], event, 0), 0);
  EXPECT_EQ(launch(streams[1]), 0);
  EXPECT_EQ(cuStreamSynchronize(streams[1]), 0);
  EXPECT_EQ(launch(streams[0]), 0);
  EXPECT_EQ(api.cuEventDestroy(event), 0);
}

TEST_F(PtxStreams, TheLibraryOrdersStepsOnAlternatingStreams) {
  const auto own = engine();
  Gpu gpu(*own);
  const StepCase c{.spec = support::spec_of("adamw", "int8"),
                   .options = {},
                   .tensors = {{.sizes = {4097}}},
                   .steps = 1};
  const jit::Plan plan = kernel_of(c);
  const jit::OptionValues options = options_of(c);
  const std::int64_t size = 4097;
  const jit::StateStorage state(*gpu.backend, plan, options, {size});
  const auto p = gpu.host->allocate(static_cast<std::size_t>(4 * size)),
             g = gpu.host->allocate(static_cast<std::size_t>(4 * size));
  const std::vector<float> ones(static_cast<std::size_t>(size), 1);
  gpu.backend->upload(p.get(), ones.data(), 4 * ones.size());
  gpu.backend->upload(g.get(), ones.data(), 4 * ones.size());
  cuStreamSynchronize(nullptr);
  jit::Step step(*gpu.backend, {{plan, {state.tensor(p.get())}}});
  for (int t = 1; t <= 6; ++t) {
    gpu.host->set_stream(streams[t % 2]);
    step.run({{.g = g.get()}}, {plan.at_step(options, t)});
  }
  EXPECT_EQ(driver::last_fault(), "");
}

TEST_F(PtxStreams, InvalidImagesAndThoseOfOtherArchitecturesFail) {
  void* other = nullptr;
  EXPECT_EQ(cuModuleLoadData(&other, "\177ELF"), 200);
  std::string text = kStore;
  text.replace(text.find("sm_80"), 5, "sm_120");
  EXPECT_EQ(cuModuleLoadData(&other, text.c_str()), 218);
  text = kStore;
  text.replace(text.find("mul.wide.u32"), 12, "mul.what.u32");
  EXPECT_EQ(cuModuleLoadData(&other, text.c_str()), 218);
  EXPECT_NE(driver::last_fault().find("mul.what.u32 is not known"), std::string::npos);
  EXPECT_EQ(cuModuleGetFunction(&other, module, "load"), 500);
}

}  // namespace
}  // namespace jitstep::tests
