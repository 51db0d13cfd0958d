#include "jitstep/jit/cuda_driver.h"

#include <dlfcn.h>

#include "jitstep/jit/error.h"
#include "jitstep/jit/text.h"

namespace jitstep::jit {
namespace {

// Values of CUdevice_attribute and CUstreamCaptureStatus; the driver's interface fixes them.
constexpr int kMultiprocessorCount = 16;
constexpr int kL2CacheSize = 38;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;
constexpr int kCaptureNone = 0;

// Makes a context current for a scope, if it is not.
class ContextScope {
 public:
  ContextScope(const CudaApi& api, void* context) : api_(api) {
    void* current = nullptr;
    if (api_.cuCtxGetCurrent(&current) == 0 && current == context) return;
    code_ = api_.cuCtxPushCurrent(context);
    pushed_ = code_ == 0;
  }
  ~ContextScope() {
    void* context = nullptr;
    if (pushed_) api_.cuCtxPopCurrent(&context);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  int code() const { return code_; }

 private:
  const CudaApi& api_;
  int code_ = 0;
  bool pushed_ = false;
};

// The names with a version are those that the driver's header maps the plain ones to.
CudaApi open_driver() {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    throw Error(text("no CUDA driver: ", dlerror(),
                     "; install the NVIDIA driver (libcuda.so.1 comes with it)"));
  }
  CudaApi api;
  std::string missing;
  const auto load = [&](const char* name, auto& function, bool required = true) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (!function && required) missing += std::string(" ") + name;
  };
  load("cuInit", api.cuInit);
  load("cuDriverGetVersion", api.cuDriverGetVersion);
  load("cuGetErrorName", api.cuGetErrorName);
  load("cuGetErrorString", api.cuGetErrorString);
  load("cuDeviceGetCount", api.cuDeviceGetCount);
  load("cuDeviceGet", api.cuDeviceGet);
  load("cuDeviceGetAttribute", api.cuDeviceGetAttribute);
  load("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain);
  load("cuCtxGetCurrent", api.cuCtxGetCurrent);
  load("cuCtxPushCurrent_v2", api.cuCtxPushCurrent);
  load("cuCtxPopCurrent_v2", api.cuCtxPopCurrent);
  load("cuModuleLoadData", api.cuModuleLoadData);
  load("cuModuleUnload", api.cuModuleUnload);
  load("cuModuleGetFunction", api.cuModuleGetFunction);
  load("cuLaunchKernel", api.cuLaunchKernel);
  load("cuStreamIsCapturing", api.cuStreamIsCapturing);
  load("cuFuncLoad", api.cuFuncLoad, false);
  if (!missing.empty()) {
    throw Error("the CUDA driver is too old, it lacks" + missing + "; install one for CUDA 12");
  }
  return api;
}

}  // namespace

CudaDriver::CudaDriver(const CudaApi& api) : api_(api) {
  check(api_.cuInit(0), "cuInit", "starting the CUDA driver");
}

int CudaDriver::version() const {
  int version = 0;
  check(api_.cuDriverGetVersion(&version), "cuDriverGetVersion", "asking for the driver's version");
  return version;
}

int CudaDriver::device_count() const {
  int count = 0;
  check(api_.cuDeviceGetCount(&count), "cuDeviceGetCount", "counting GPUs");
  return count;
}

CudaDevice CudaDriver::device(int ordinal) const {
  const std::string doing = text("asking about GPU ", ordinal);
  int handle = 0;
  check(api_.cuDeviceGet(&handle, ordinal), "cuDeviceGet", doing);
  const auto attribute = [&](int which) {
    int value = 0;
    check(api_.cuDeviceGetAttribute(&value, which, handle), "cuDeviceGetAttribute", doing);
    return value;
  };
  return {.ordinal = ordinal,
          .sm = 10 * attribute(kComputeCapabilityMajor) + attribute(kComputeCapabilityMinor),
          .multiprocessors = attribute(kMultiprocessorCount),
          .l2_bytes = attribute(kL2CacheSize)};
}

bool CudaDriver::is_capturing(void* stream) const {
  int status = kCaptureNone;
  check(api_.cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing", "asking about a stream");
  return status != kCaptureNone;
}

void* CudaDriver::primary_context(int ordinal) {
  std::lock_guard lock(mutex_);
  if (const auto known = contexts_.find(ordinal); known != contexts_.end()) return known->second;
  const std::string doing = text("opening GPU ", ordinal);
  int handle = 0;
  void* context = nullptr;
  check(api_.cuDeviceGet(&handle, ordinal), "cuDeviceGet", doing);
  check(api_.cuDevicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain", doing);
  return contexts_[ordinal] = context;
}

void* CudaDriver::load_module(void* context, const void* image, const std::string& name) const {
  const std::string doing = "loading " + name;
  const ContextScope scope(api_, context);
  check(scope.code(), "cuCtxPushCurrent", doing);
  void* module = nullptr;
  check(api_.cuModuleLoadData(&module, image), "cuModuleLoadData", doing);
  return module;
}

void CudaDriver::unload_module(void* context, void* module) const noexcept {
  // At the end of a process the driver may be gone already, and says so; nothing is left to do.
  const ContextScope scope(api_, context);
  if (scope.code() == 0) api_.cuModuleUnload(module);
}

void* CudaDriver::function(void* context, void* module, const std::string& name) const {
  const std::string doing = "looking up the kernel " + name;
  const ContextScope scope(api_, context);
  check(scope.code(), "cuCtxPushCurrent", doing);
  void* function = nullptr;
  check(api_.cuModuleGetFunction(&function, module, name.c_str()), "cuModuleGetFunction", doing);
  // A lazy driver would load at the first launch, which may be inside a graph capture.
  if (api_.cuFuncLoad) check(api_.cuFuncLoad(function), "cuFuncLoad", doing);
  return function;
}

void CudaDriver::launch(void* context, void* function, void* stream, unsigned grid, unsigned block,
                        const void* args) const {
  void* params[] = {const_cast<void*>(args)};  // the driver only reads it
  const ContextScope scope(api_, context);
  int code = scope.code();
  if (code == 0) {
    code = api_.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, params, nullptr);
  }
  if (code == 0) return;
  check(code, "cuLaunchKernel", text("launching ", grid, " blocks of ", block, " threads"));
}

void CudaDriver::check(int code, const char* call, const std::string& doing) const {
  if (code == 0) return;
  const char *name = nullptr, *sentence = nullptr;
  if (api_.cuGetErrorName(code, &name) != 0 || !name) name = "an unknown error";
  if (api_.cuGetErrorString(code, &sentence) != 0 || !sentence) sentence = "no description";
  throw CudaError(text(doing, " failed: ", call, " returned ", name, " (", code, "), ", sentence),
                  call, code);
}

CudaDriver& cuda_driver() {
  // Never destroyed: modules may be unloaded while the process ends. A throw leaves it to be tried
  // again by the next call.
  static CudaDriver& driver = *new CudaDriver(open_driver());
  return driver;
}

}  // namespace jitstep::jit
