// The driver layer over a fake that records its calls, so that no GPU is needed.
#include "jit/engine/cuda_driver.h"

#include "jit/engine/cuda_errors.h"
#include "jit/engine/module.h"
#include "jit/fixtures.h"
#include "jitstep/jit/error.h"
#include "support/fake_driver.h"

namespace jitstep::jit {
namespace {

using support::FakeDriver;
using testing::error_of;
using Calls = std::vector<std::string>;

class Driver : public ::testing::Test {
 protected:
  FakeDriver fake;
};

// Everything that the layer does, from the first call to the last.
void use_everything(FakeDriver& fake) {
  CudaDriver driver(FakeDriver::api());
  driver.device_count();
  driver.device(0);
  void* const context = driver.primary_context(0);
  const auto module = load_cuda_module(support::fake_cubin(90), "unit", driver, 0);
  const CudaEntry entry = module->cuda_entry("step");
  driver.is_capturing(context, fake.handle(0));
  const auto table = fake.allocate(0, 8);
  driver.upload(context, fake.handle(0), table.get(), "12345678", 8);
  struct Event {
    const CudaDriver& driver;
    void *context, *event = driver.create_event(context);
    ~Event() { driver.destroy_event(context, event); }
  } event{driver, context};
  const Args args{};
  entry.launch(fake.handle(0), 1, 32, &args);
  driver.record_event(context, event.event, fake.handle(0));
  driver.wait_event(context, fake.handle(0), event.event);
}

TEST_F(Driver, ADeviceIsDescribed) {
  fake.sm[1] = 121;
  fake.multiprocessors = 132;
  const CudaDriver driver(FakeDriver::api());
  EXPECT_EQ(driver.version(), 13000);
  EXPECT_EQ(driver.device_count(), 2);
  EXPECT_EQ(driver.device(0).sm, 90);
  EXPECT_EQ(driver.device(1).sm, 121);
  EXPECT_EQ(driver.device(0).multiprocessors, 132);
  EXPECT_EQ(driver.device(0).l2_bytes, 50 << 20);
}

TEST_F(Driver, LoadsLaunchesAndUnloadsAModuleInItsOwnContext) {
  CudaDriver driver(FakeDriver::api());
  driver.primary_context(1);
  fake.clear();
  {
    const auto module = load_cuda_module(support::fake_cubin(90), "unit", driver, 1);
    const CudaEntry entry = module->cuda_entry("step");
    const Args args{};
    entry.launch(fake.handle(1), 3, 128, &args);
  }
  EXPECT_EQ(
      fake.calls,
      (Calls{"cuCtxGetCurrent",          "cuCtxPushCurrent 1", "cuModuleLoadData",
             "cuCtxPopCurrent",          "cuCtxGetCurrent",    "cuCtxPushCurrent 1",
             "cuModuleGetFunction step", "cuCtxPopCurrent",    "cuCtxGetCurrent",
             "cuCtxPushCurrent 1",       "cuFuncLoad step",    "cuCtxPopCurrent",
             "cuCtxGetCurrent",          "cuCtxPushCurrent 1", "cuLaunchKernel step 3x128 stream 1",
             "cuCtxPopCurrent",          "cuCtxGetCurrent",    "cuCtxPushCurrent 1",
             "cuModuleUnload",           "cuCtxPopCurrent"}));
  EXPECT_EQ(fake.last_image, "\177ELF");
  EXPECT_EQ(fake.context_depth(), 0u);
}

TEST_F(Driver, DoesNotPushTheCurrentContextAgain) {
  CudaDriver driver(FakeDriver::api());
  const auto module = load_cuda_module(support::fake_cubin(90), "unit", driver, 0);
  const CudaEntry entry = module->cuda_entry("step");
  fake.set_current_context(0);
  fake.clear();
  const Args args{};
  entry.launch(fake.handle(0), 1, 32, &args);
  EXPECT_EQ(fake.calls, (Calls{"cuCtxGetCurrent", "cuLaunchKernel step 1x32 stream 0"}));
  EXPECT_EQ(fake.context_depth(), 1u);
}

TEST_F(Driver, RetainsTheContextOfADeviceOnce) {
  CudaDriver driver(FakeDriver::api());
  EXPECT_EQ(driver.primary_context(1), driver.primary_context(1));
  EXPECT_EQ(fake.calls_of("cuDevicePrimaryCtxRetain"), (Calls{"cuDevicePrimaryCtxRetain 1"}));
}

TEST_F(Driver, WorksWithoutFuncLoad) {
  CudaApi old = FakeDriver::api();
  old.cuFuncLoad = nullptr;
  CudaDriver driver(old);
  const auto module = load_cuda_module(support::fake_cubin(90), "unit", driver, 0);
  EXPECT_NO_THROW(module->cuda_entry("step"));
  EXPECT_TRUE(fake.calls_of("cuFuncLoad").empty());
}

// ---- errors -------------------------------------------------------------------------------------

// Every CUresult in cuda.h of CUDA 13, and some values outside it.
const std::vector<int>& all_codes() {
  static const std::vector<int> codes = {
      1,   2,   3,   4,   5,   6,   7,   8,   34,  36,  46,  100, 101, 102, 200, 201, 202,
      205, 206, 207, 208, 209, 210, 211, 212, 213, 214, 215, 216, 217, 218, 219, 220, 221,
      222, 223, 224, 225, 226, 300, 301, 302, 303, 304, 400, 401, 402, 500, 600, 700, 701,
      702, 703, 704, 705, 708, 709, 710, 711, 712, 713, 714, 715, 716, 717, 718, 719, 720,
      721, 800, 801, 802, 803, 804, 805, 806, 807, 808, 809, 810, 811, 812, 900, 901, 902,
      903, 904, 905, 906, 907, 908, 909, 910, 911, 912, 913, 914, 915, 916, 917, 999, 12345};
  return codes;
}

// The exception after one failure of one call, if there was any.
struct Thrown {
  std::string message, call;
  int code = 0;
};

Thrown thrown_by(FakeDriver& fake) {
  try {
    use_everything(fake);
  } catch (const CudaError& error) {
    return {error.what(), error.call(), error.code()};
  } catch (const ImageError& error) {
    return {error.what(), "cuModuleLoadData", -1};
  }
  return {};
}

void expect_one_sentence(const Thrown& thrown, const std::string& name, int code) {
  EXPECT_EQ(thrown.call, name);
  EXPECT_TRUE(thrown.code == code || thrown.code == -1) << thrown.code;
  const std::string known = code <= 999 ? str_cat("CUDA_ERROR_FAKE_", code) : "an unknown error";
  EXPECT_NE(thrown.message.find(str_cat(" failed: ", name, " returned ", known, " (", code, "), ")),
            std::string::npos)
      << thrown.message;
  EXPECT_NE(thrown.message.find(cuda_advice(code)), std::string::npos) << thrown.message;
  EXPECT_EQ(thrown.message.find('\n'), std::string::npos) << thrown.message;
}

// Lets the call of that name fail after `spared` successful ones. Returns false if there were no more such calls.
bool expect_one_failure(const std::string& name, int code, int spared) {
  constexpr int kContextsBeforeClosing = 9;
  FakeDriver fake;
  fake.fail(name, code, spared, 1);
  const Thrown thrown = thrown_by(fake);
  if (static_cast<int>(fake.calls_of(name).size()) <= spared) return false;
  const bool closing = name == "cuModuleUnload" || name == "cuEventDestroy" ||
                       (name.starts_with("cuCtx") && spared >= kContextsBeforeClosing);
  if (closing || name == "cuCtxGetCurrent")
    EXPECT_EQ(thrown.message, "");
  else
    expect_one_sentence(thrown, name, code);
  // A context that cannot be made current cannot be used to unload either.
  const int lost = closing && name == "cuCtxPushCurrent" ? 1 : 0;
  EXPECT_EQ(fake.loaded_modules() + fake.live_events(), lost);
  EXPECT_EQ(fake.context_depth(), 0u);
  EXPECT_EQ(fake.live_allocations(), 0);
  return true;
}

TEST(DriverErrors, EveryErrorOfEveryCallIsOneSentenceAndLeaksNothing) {
  int failures = 0;
  for (const std::string& name : FakeDriver::function_names())
    for (int code : all_codes())
      for (int spared = 0;; ++spared) {
        SCOPED_TRACE(str_cat(name, " ", code, " after ", spared));
        if (!expect_one_failure(name, code, spared)) break;
        ++failures;
      }
  RecordProperty("failures", failures);
  EXPECT_GT(failures, 20 * 100);
}

TEST_F(Driver, FrequentErrorsTellTheFix) {
  const std::vector<std::pair<int, const char*>> expected = {
      {2, "memory is full"},
      {3, "forked"},
      {4, "ending"},
      {34, "stub"},
      {100, "nvidia-smi"},
      {200, "compiles a cached binary again"},
      {201, "start the process"},
      {209, "another GPU"},
      {222, "NVRTC is newer than the driver"},
      {700, "earlier kernel"},
      {701, "registers"},
      {702, "display"},
      {719, "compute-sanitizer"},
      {803, "Restart"},
      {804, "cuda-compat"},
      {900, "captured"},
      {906, "captured"},
      {909, "captured"},
      {999, "Xid"}};
  for (const auto& [code, phrase] : expected) {
    fake.fail("cuLaunchKernel", code);
    const std::string message = error_of<CudaError>([&] { use_everything(fake); });
    EXPECT_NE(message.find(phrase), std::string::npos) << code << ": " << message;
  }
}

TEST_F(Driver, AFailureNamesTheOperationAndTheResult) {
  fake.fail("cuLaunchKernel", 702);
  EXPECT_EQ(
      error_of<CudaError>([&] { use_everything(fake); }),
      "launching 1 blocks of 32 threads failed: cuLaunchKernel returned CUDA_ERROR_FAKE_702 "
      "(702), the driver's own words. The system limits the run time of kernels, for example on "
      "GPUs with a display. Use another GPU, or remove the limit.");
}

TEST_F(Driver, OnlyABadImageIsAnImageError) {
  fake.version = 12040;
  CudaDriver driver(FakeDriver::api());
  for (int code : all_codes()) {
    const bool about_image =
        code == 200 || code == 209 || code == 218 || code == 222 || code == 300;
    fake.fail("cuModuleLoadData", code);
    try {
      load_cuda_module(support::fake_cubin(90), "unit", driver, 0);
      ADD_FAILURE() << code << ": nothing was thrown";
    } catch (const ImageError& error) {
      EXPECT_TRUE(about_image) << code;
      EXPECT_NE(std::string(error.what()).find("driver is for CUDA 12.4"), std::string::npos);
    } catch (const CudaError&) {
      EXPECT_FALSE(about_image) << code;
    }
  }
}

TEST_F(Driver, ClosingAfterTheDriverIsGoneDoesNotThrow) {
  CudaDriver driver(FakeDriver::api());
  auto module = load_cuda_module(support::fake_cubin(90), "unit", driver, 0);
  void* const context = driver.primary_context(0);
  void* const event = driver.create_event(context);
  for (const std::string& name : FakeDriver::function_names()) fake.fail(name, 4);
  EXPECT_NO_THROW(module.reset());
  EXPECT_NO_THROW(driver.destroy_event(context, event));
}

TEST_F(Driver, AMissingKernelIsNamed) {
  CudaDriver driver(FakeDriver::api());
  const auto module = load_cuda_module(support::fake_cubin(90), "unit", driver, 0);
  const std::string message = error_of<CudaError>([&] { module->cuda_entry("missing"); });
  EXPECT_NE(message.find("looking up the kernel missing"), std::string::npos) << message;
}

// ---- through the engine -------------------------------------------------------------------------

class EngineOnFake : public Driver {
 protected:
  testing::TemporaryFolder folder;
  Engine engine{testing::settings_with_cache(folder.path()),
                {.nvrtc = std::make_shared<support::FakeCompiler>(),
                 .driver = std::make_shared<CudaDriver>(FakeDriver::api())}};
};

TEST_F(EngineOnFake, LoadsOneKernelPerDeviceFromOneBinary) {
  EXPECT_EQ(engine.cuda_target(0), Target::cuda(90));
  const auto on_0 = engine.kernel("x", "unit", Target::cuda(90), 0);
  const auto on_1 = engine.kernel("x", "unit", Target::cuda(90), 1);
  EXPECT_NE(on_0, on_1);
  EXPECT_EQ(on_0, engine.kernel("x", "unit", Target::cuda(90), 0));
  EXPECT_EQ(engine.statistics().compiled, 1u);
  EXPECT_EQ(fake.loaded_modules(), 2);
  EXPECT_THROW(on_0->cpu("step"), Error);
}

TEST_F(EngineOnFake, AKernelForAnotherArchitectureThrows) {
  const std::string message = error_of([&] { engine.kernel("x", "unit", Target::cuda(80), 0); });
  EXPECT_NE(message.find("sm_80"), std::string::npos) << message;
  EXPECT_NE(message.find("GPU 0 is sm_90"), std::string::npos) << message;
}

TEST_F(EngineOnFake, ADriverOlderThanNvrtcsPtxThrowsAfterASecondTry) {
  fake.fail("cuModuleLoadData", 222);
  const std::string message =
      error_of<ImageError>([&] { engine.kernel("x", "unit", Target::cuda(90), 0); });
  EXPECT_NE(message.find("NVRTC is newer than the driver"), std::string::npos) << message;
  EXPECT_NE(message.find("driver is for CUDA 13.0"), std::string::npos) << message;
  EXPECT_EQ(engine.statistics().compiled, 1u);
  fake.recover();
  EXPECT_NO_THROW(engine.kernel("x", "unit", Target::cuda(90), 0)) << "after a driver update";
}

TEST_F(EngineOnFake, RunningOutOfMemoryDoesNotDiscardTheBinary) {
  fake.fail("cuModuleLoadData", 2);
  EXPECT_THROW(engine.kernel("x", "unit", Target::cuda(90), 0), CudaError);
  fake.recover();
  engine.kernel("x", "unit", Target::cuda(90), 0);
  EXPECT_EQ(engine.statistics().compiled, 1u);
}

}  // namespace
}  // namespace jitstep::jit
