// Driver libraries that lack functions, and files that are not drivers. The host compiler makes these libraries, and
// the test opens them for real.
#include <dlfcn.h>

#include "jit/compiler/host_compiler.h"
#include "jit/engine/cuda_driver.h"
#include "jit/fixtures.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using testing::error_of;

// The functions that a CUDA 12 driver exports, of those that jitstep looks up.
const std::vector<std::string>& exports() {
  static const std::vector<std::string> names = {"cuInit",
                                                 "cuDriverGetVersion",
                                                 "cuGetErrorName",
                                                 "cuGetErrorString",
                                                 "cuDeviceGetCount",
                                                 "cuDeviceGet",
                                                 "cuDeviceGetAttribute",
                                                 "cuDevicePrimaryCtxRetain",
                                                 "cuCtxGetCurrent",
                                                 "cuCtxPushCurrent_v2",
                                                 "cuCtxPopCurrent_v2",
                                                 "cuModuleLoadData",
                                                 "cuModuleUnload",
                                                 "cuModuleGetFunction",
                                                 "cuLaunchKernel",
                                                 "cuMemcpyHtoDAsync_v2",
                                                 "cuStreamIsCapturing",
                                                 "cuStreamWaitEvent",
                                                 "cuEventCreate",
                                                 "cuEventRecord",
                                                 "cuEventDestroy_v2"};
  return names;
}

class DriverLibrary : public ::testing::Test {
 protected:
  // A library of some functions, each of which returns `code`.
  std::string library(const std::vector<std::string>& functions, int code) {
    std::string unit;
    for (const std::string& name : functions)
      unit += str_cat(kExport, name, "(...) { return ", code, "; }\n");
    return built(unit);
  }

  // A library that reports a version and must not be initialized.
  std::string versioned_library(int version) {
    return built(str_cat(kExport, "cuInit(unsigned) { __builtin_trap(); }\n", kExport,
                         "cuDriverGetVersion(int* version) { *version = ", version,
                         "; return 0; }\n"));
  }

 private:
  static constexpr char kExport[] = "extern \"C\" __attribute__((visibility(\"default\"))) int ";

  std::string built(const std::string& unit) {
    const auto binary = compiler_.compile(unit, "driver", Target::cpu());
    const std::string path = folder_ / str_cat("libcuda_", made_++, ".so");
    testing::write_file(path,
                        {reinterpret_cast<const char*>(binary.image.data()), binary.image.size()});
    return path;
  }

  int made_ = 0;
  testing::TemporaryFolder folder_;
  HostCompiler compiler_{Settings::from_environment()};
};

TEST_F(DriverLibrary, LooksUpOnlyFunctionsThatCuda12Exports) {
  const CudaApi api = open_cuda_api(library(exports(), 0));
  EXPECT_NE(api.cuInit, nullptr);
  EXPECT_NE(api.cuEventDestroy, nullptr);
  EXPECT_EQ(api.cuFuncLoad, nullptr) << "a driver before 12.4 has none, and will do";
}

TEST_F(DriverLibrary, MissingFunctionsAreNamedWithTheDriverToInstall) {
  std::vector<std::string> old = exports();
  const std::string last = old.back();
  old.pop_back();
  EXPECT_NE(error_of([&] { open_cuda_api(library(old, 0)); }).find("lacks " + last + ". Install"),
            std::string::npos);
  const std::string all = error_of([&] { open_cuda_api(library({"unrelated"}, 0)); });
  for (const std::string& name : exports())
    EXPECT_NE(all.find(" " + name), std::string::npos) << name << ": " << all;
}

TEST_F(DriverLibrary, RecognizesTheToolkitsStub) {
  const std::string message =
      error_of<CudaError>([&] { CudaDriver driver(open_cuda_api(library(exports(), 34))); });
  EXPECT_NE(message.find("cuInit returned"), std::string::npos) << message;
  EXPECT_NE(message.find("the toolkit's stub"), std::string::npos) << message;
}

TEST_F(DriverLibrary, ADriverWithoutAGpuThrowsWithAHint) {
  const std::string message =
      error_of<CudaError>([&] { CudaDriver driver(open_cuda_api(library(exports(), 100))); });
  EXPECT_NE(message.find("No NVIDIA GPU is visible"), std::string::npos) << message;
}

TEST_F(DriverLibrary, ReadsTheVersionWithoutInitializingTheDriver) {
  EXPECT_EQ(installed_driver_version("/dev/null"), 0);
  EXPECT_EQ(installed_driver_version(library({"cuInit"}, 0)), 0) << "no such function";
  EXPECT_EQ(installed_driver_version(library({"cuDriverGetVersion"}, 34)), 0) << "it fails";
  const std::string path = versioned_library(12040);
  EXPECT_EQ(installed_driver_version(path), 12040) << "cuInit would have exited the process";
}

TEST(CudaDriver, AFileThatIsNotALibraryThrows) {
  EXPECT_NE(error_of([] { open_cuda_api("/dev/null"); }).find("Install the NVIDIA driver"),
            std::string::npos);
}

TEST(CudaDriver, AHostWithoutADriverThrowsWithTheDriverToInstall) {
  if (void* handle = dlopen("libcuda.so.1", RTLD_NOW)) {
    dlclose(handle);
    GTEST_SKIP() << "this host has a CUDA driver";
  }
  EXPECT_NE(error_of([] { cuda_driver(); }).find("Install the NVIDIA driver"), std::string::npos);
  EXPECT_THROW(cuda_driver(), Error) << "and again";
}

}  // namespace
}  // namespace jitstep::jit
