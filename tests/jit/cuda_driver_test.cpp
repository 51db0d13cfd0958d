// The driver layer over a fake that records its calls: no GPU is needed.

#include "jitstep/jit/cuda_driver.h"

#include <dlfcn.h>

#include <cstring>

#include "fixtures.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/module.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using Calls = std::vector<std::string>;

// The fake's state: plain functions, as the driver's are, can reach nothing else.
struct Fake {
  Calls calls;
  std::vector<void*> stack;  // of current contexts
  int result = 0;            // of the call named by `failing`
  std::string failing;
  int launched_argument = 0;
  int capture_status = 0;

  int did(const std::string& call) {
    calls.push_back(call);
    return call.starts_with(failing) && !failing.empty() ? result : 0;
  }
};
Fake fake;

char contexts[4], modules[1], functions[1];

int attribute(int* value, int which, int device) {
  *value = which == 75 ? 9 : which == 76 ? device : which == 16 ? 132 : 50 << 20;
  return 0;
}

int current(void** context) {
  *context = fake.stack.empty() ? nullptr : fake.stack.back();
  return 0;
}

int push(void* context) {
  if (const int code = fake.did("push")) return code;
  fake.stack.push_back(context);
  return 0;
}

int pop(void** context) {
  *context = fake.stack.back();
  fake.stack.pop_back();
  return fake.did("pop");
}

int launch(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
           unsigned bz, unsigned shared, void* stream, void** params, void** extra) {
  EXPECT_EQ(function, functions);
  EXPECT_EQ(extra, nullptr);
  EXPECT_EQ(fake.stack.back(), &contexts[0]) << "the kernel's own context must be current";
  std::memcpy(&fake.launched_argument, params[0], sizeof(int));
  return fake.did(text("launch ", gx, gy, gz, " ", bx, ",", by, bz, " ", shared, " ",
                       stream == &fake ? "stream" : "other"));
}

CudaApi fake_api() {
  CudaApi api;
  api.cuInit = [](unsigned) { return fake.did("init"); };
  api.cuDriverGetVersion = [](int* version) { return *version = 13000, 0; };
  api.cuGetErrorName = [](int, const char** name) { return *name = "CUDA_ERROR_FAKE", 0; };
  api.cuGetErrorString = [](int, const char** sentence) { return *sentence = "it is a fake", 0; };
  api.cuDeviceGetCount = [](int* count) { return *count = 2, 0; };
  api.cuDeviceGet = [](int* device, int ordinal) { return *device = ordinal, 0; };
  api.cuDeviceGetAttribute = attribute;
  api.cuDevicePrimaryCtxRetain = [](void** context, int device) {
    *context = &contexts[device];
    return fake.did(text("retain ", device));
  };
  api.cuCtxGetCurrent = current;
  api.cuCtxPushCurrent = push;
  api.cuCtxPopCurrent = pop;
  api.cuModuleLoadData = [](void** module, const void*) {
    *module = modules;
    return fake.did("load");
  };
  api.cuModuleUnload = [](void*) { return fake.did("unload"); };
  api.cuModuleGetFunction = [](void** function, void*, const char* name) {
    *function = functions;
    return fake.did(text("function ", name));
  };
  api.cuLaunchKernel = launch;
  api.cuStreamIsCapturing = [](void*, int* status) { return *status = fake.capture_status, 0; };
  api.cuFuncLoad = [](void*) { return fake.did("funcload"); };
  return api;
}

class Driver : public ::testing::Test {
 protected:
  void SetUp() override { fake = Fake(); }
  // A cubin's head is enough for check_image.
  static std::vector<std::byte> cubin(int sm) {
    std::vector<std::byte> image(200);
    std::memcpy(image.data(), "\177ELF", 4);
    image[18] = std::byte{190};
    image[49] = std::byte(sm);
    return image;
  }
};

TEST_F(Driver, ADeviceIsDescribed) {
  const CudaDriver driver(fake_api());
  EXPECT_EQ(driver.version(), 13000);
  EXPECT_EQ(driver.device_count(), 2);
  EXPECT_EQ(driver.device(0).sm, 90);
  EXPECT_EQ(driver.device(1).sm, 91);
  EXPECT_EQ(driver.device(0).multiprocessors, 132);
  EXPECT_EQ(driver.device(0).l2_bytes, 50 << 20);
}

TEST_F(Driver, AModuleIsLoadedLaunchedAndUnloadedInItsOwnContext) {
  CudaDriver driver(fake_api());
  {
    const auto module = load_cuda_module(cubin(90), "unit", driver, 0);
    const CudaEntry entry = module->cuda_entry("step");
    const int argument = 42;
    entry.launch(&fake, 3, 128, &argument);
    EXPECT_EQ(fake.launched_argument, 42);
  }
  EXPECT_EQ(fake.calls,
            (Calls{"init", "retain 0", "push", "load", "pop", "push", "function step", "funcload",
                   "pop", "push", "launch 311 128,11 0 stream", "pop", "push", "unload", "pop"}));
  EXPECT_TRUE(fake.stack.empty());
}

TEST_F(Driver, AContextThatIsCurrentIsNotPushedAgain) {
  CudaDriver driver(fake_api());
  const auto module = load_cuda_module(cubin(90), "unit", driver, 0);
  const CudaEntry entry = module->cuda_entry("step");
  fake.stack = {&contexts[0]};
  fake.calls.clear();
  const int argument = 0;
  entry.launch(nullptr, 1, 32, &argument);
  EXPECT_EQ(fake.calls, (Calls{"launch 111 32,11 0 other"}));
}

TEST_F(Driver, TheContextOfADeviceIsRetainedOnce) {
  CudaDriver driver(fake_api());
  EXPECT_EQ(driver.primary_context(1), driver.primary_context(1));
  EXPECT_EQ(fake.calls, (Calls{"init", "retain 1"}));
}

TEST_F(Driver, AFailureSaysWhatWasDoneAndWhatCameBack) {
  CudaDriver driver(fake_api());
  const auto module = load_cuda_module(cubin(90), "unit", driver, 0);
  const CudaEntry entry = module->cuda_entry("step");
  fake.failing = "launch";
  fake.result = 701;
  try {
    entry.launch(nullptr, 4, 2048, &fake);
    FAIL() << "nothing was thrown";
  } catch (const CudaError& error) {
    EXPECT_EQ(error.call(), "cuLaunchKernel");
    EXPECT_EQ(error.code(), 701);
    EXPECT_STREQ(error.what(),
                 "launching 4 blocks of 2048 threads failed: cuLaunchKernel returned "
                 "CUDA_ERROR_FAKE (701), it is a fake");
  }
  EXPECT_TRUE(fake.stack.empty());
}

TEST_F(Driver, OnlyABadImageIsAnImageError) {
  CudaDriver driver(fake_api());
  fake.failing = "load";
  for (int code : {200, 209, 218, 222, 300}) {
    fake.result = code;
    EXPECT_THROW(load_cuda_module(cubin(90), "unit", driver, 0), ImageError) << code;
  }
  fake.result = 2;  // out of memory
  EXPECT_THROW(load_cuda_module(cubin(90), "unit", driver, 0), CudaError);
}

TEST_F(Driver, ACaptureIsSeen) {
  const CudaDriver driver(fake_api());
  EXPECT_FALSE(driver.is_capturing(nullptr));
  fake.capture_status = 1;
  EXPECT_TRUE(driver.is_capturing(nullptr));
}

// A compiler whose "cubin" is just a head.
class CubinCompiler : public Compiler {
 public:
  explicit CubinCompiler(std::vector<std::byte> image) : image_(std::move(image)) {}
  Binary compile(const std::string&, const std::string&, const Target&) override {
    return {image_, "", {}};
  }
  const std::string& identity(const Target&) override { return identity_; }

 private:
  std::vector<std::byte> image_;
  std::string identity_ = "fake";
};

TEST_F(Driver, AnEngineLoadsOneKernelPerDeviceFromOneBinary) {
  testing::TemporaryFolder folder;
  CudaApi api = fake_api();
  api.cuDeviceGetAttribute = [](int* value, int which, int) {
    return *value = which == 75 ? 9 : 0, 0;
  };
  Engine engine(testing::settings_with_cache(folder.path()),
                {.nvrtc = std::make_shared<CubinCompiler>(cubin(90)),
                 .driver = std::make_shared<CudaDriver>(api)});
  EXPECT_EQ(engine.cuda_target(0), Target::cuda(90));
  const auto on_0 = engine.kernel("x", "unit", Target::cuda(90), 0);
  const auto on_1 = engine.kernel("x", "unit", Target::cuda(90), 1);
  EXPECT_NE(on_0, on_1);
  EXPECT_EQ(on_0, engine.kernel("x", "unit", Target::cuda(90), 0));
  EXPECT_EQ(engine.statistics().compiled, 1u);
  EXPECT_EQ(std::count(fake.calls.begin(), fake.calls.end(), "load"), 2);
  EXPECT_THROW(on_0->cpu("step"), Error);
}

TEST_F(Driver, AKernelForAnotherArchitectureThanTheGpusIsRefused) {
  testing::TemporaryFolder folder;
  Engine engine(testing::settings_with_cache(folder.path()),
                {.nvrtc = std::make_shared<CubinCompiler>(cubin(80)),
                 .driver = std::make_shared<CudaDriver>(fake_api())});
  const std::string message = error_of([&] { engine.kernel("x", "unit", Target::cuda(80), 0); });
  EXPECT_NE(message.find("sm_80"), std::string::npos) << message;
  EXPECT_NE(message.find("GPU 0 is sm_90"), std::string::npos) << message;
}

TEST(CudaDriver, AMachineWithoutADriverIsToldWhatToInstall) {
  if (void* handle = dlopen("libcuda.so.1", RTLD_NOW)) {
    dlclose(handle);
    GTEST_SKIP() << "this machine has a CUDA driver";
  }
  EXPECT_NE(error_of([] { cuda_driver(); }).find("install the NVIDIA driver"), std::string::npos);
  EXPECT_THROW(cuda_driver(), Error) << "and again";
}

}  // namespace
}  // namespace jitstep::jit
