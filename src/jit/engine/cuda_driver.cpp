#include "jit/engine/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "jit/base/lock_free_static.h"
#include "jit/base/text.h"
#include "jit/engine/cuda_errors.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Values of CUdevice_attribute, CUstreamCaptureStatus and CUevent_flags, which the driver API fixes.
constexpr int kMultiprocessorCount = 16;
constexpr int kL2CacheSize = 38;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;
constexpr int kCaptureNone = 0;
constexpr unsigned kDisableTiming = 2;

// Note: the driver copies up to this size from pageable memory at once, into its command buffer (CUDA C++ Programming
// Guide, asynchronous concurrent execution). For larger copies it may first wait for all work on the stream.
constexpr std::size_t kStagedBytes = std::size_t{64} << 10;

// A failed driver call, or none.
struct CallResult {
  int code = 0;
  const char* call = nullptr;
};

// Makes a context current for a call and restores the previous one. Skips both if the context is current already. If
// cuCtxGetCurrent() fails, pushes the context anyway.
template <class Call>
CallResult in_context(const CudaApi& api, void* context, const char* name, const Call& call) {
  void* current = nullptr;
  if (api.cuCtxGetCurrent(&current) == 0 && current == context) return {call(), name};
  if (const int code = api.cuCtxPushCurrent(context)) return {code, "cuCtxPushCurrent"};
  const int code = call();
  const int popped = api.cuCtxPopCurrent(&current);
  return code == 0 && popped != 0 ? CallResult{popped, "cuCtxPopCurrent"} : CallResult{code, name};
}

void check_not_forked() {
  if (!forked_after(ForkSensitive::cuda_driver)) return;
  throw Error(
      "cannot use CUDA in a process that was forked after its parent had used it: contexts do not "
      "survive fork(). Fork before the first use of CUDA, or start a new process (spawn).");
}

std::unique_ptr<CudaDriver> open_driver() { return std::make_unique<CudaDriver>(open_cuda_api()); }

}  // namespace

// The versioned names are those that the driver's header maps the plain names to.
CudaApi open_cuda_api(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    throw Error(str_cat("no CUDA driver: ", dlerror(),
                        ". Install the NVIDIA driver, which includes libcuda.so.1."));
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
  load("cuMemcpyHtoDAsync_v2", api.cuMemcpyHtoDAsync);
  load("cuStreamIsCapturing", api.cuStreamIsCapturing);
  load("cuStreamWaitEvent", api.cuStreamWaitEvent);
  load("cuEventCreate", api.cuEventCreate);
  load("cuEventRecord", api.cuEventRecord);
  load("cuEventDestroy_v2", api.cuEventDestroy);
  load("cuFuncLoad", api.cuFuncLoad, false);
  if (!missing.empty()) {
    throw Error(str_cat("the CUDA driver is too old: ", library, " lacks", missing,
                        ". Install a driver for CUDA 12 or newer."));
  }
  return api;
}

int installed_driver_version(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return 0;
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(handle, "cuDriverGetVersion"));
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

// ---- checked calls. `doing` formats the description only after a failure ----------------------

template <class Doing, class Call>
void CudaDriver::run(const char* name, const Doing& doing, const Call& call) const {
  check_not_forked();
  if (const int code = call()) fail(code, name, doing());
}

template <class Doing, class Call>
void CudaDriver::run_in(void* context, const char* name, const Doing& doing,
                        const Call& call) const {
  check_not_forked();
  const CallResult result = in_context(api_, context, name, call);
  if (result.code != 0) fail(result.code, result.call, doing());
}

void CudaDriver::fail(int code, const char* call, const std::string& doing) const {
  const char *name = nullptr, *sentence = nullptr;
  if (api_.cuGetErrorName(code, &name) != 0 || !name) name = "an unknown error";
  if (api_.cuGetErrorString(code, &sentence) != 0 || !sentence) sentence = "no description";
  const std::string_view advice = cuda_advice(code);
  throw CudaError(str_cat(doing, " failed: ", call, " returned ", name, " (", code, "), ", sentence,
                          advice.empty() ? "" : ". ", advice),
                  call, code);
}

CudaDriver::CudaDriver(const CudaApi& api) : api_(api) {
  const auto doing = [] { return "starting the CUDA driver"; };
  check_not_forked();
  note_used(ForkSensitive::cuda_driver);
  run("cuInit", doing, [&] { return api_.cuInit(0); });
  run("cuDriverGetVersion", doing, [&] { return api_.cuDriverGetVersion(&version_); });
}

// ---- devices and modules -----------------------------------------------------------------------

int CudaDriver::device_count() const {
  int count = 0;
  run(
      "cuDeviceGetCount", [] { return "counting GPUs"; },
      [&] { return api_.cuDeviceGetCount(&count); });
  return count;
}

CudaDevice CudaDriver::device(int ordinal) const {
  const auto doing = [&] { return str_cat("querying GPU ", ordinal); };
  int handle = 0;
  run("cuDeviceGet", doing, [&] { return api_.cuDeviceGet(&handle, ordinal); });
  const auto attribute = [&](int which) {
    int value = 0;
    run("cuDeviceGetAttribute", doing,
        [&] { return api_.cuDeviceGetAttribute(&value, which, handle); });
    return value;
  };
  return {.ordinal = ordinal,
          .sm = 10 * attribute(kComputeCapabilityMajor) + attribute(kComputeCapabilityMinor),
          .multiprocessors = attribute(kMultiprocessorCount),
          .l2_bytes = attribute(kL2CacheSize)};
}

void* CudaDriver::primary_context(int ordinal) {
  check_not_forked();
  std::lock_guard lock(mutex_);
  if (const auto known = contexts_.find(ordinal); known != contexts_.end()) return known->second;
  const auto doing = [&] { return str_cat("opening GPU ", ordinal); };
  int handle = 0;
  void* context = nullptr;
  run("cuDeviceGet", doing, [&] { return api_.cuDeviceGet(&handle, ordinal); });
  run("cuDevicePrimaryCtxRetain", doing,
      [&] { return api_.cuDevicePrimaryCtxRetain(&context, handle); });
  return contexts_[ordinal] = context;
}

void* CudaDriver::load_module(void* context, const void* image, const std::string& name) const {
  void* module = nullptr;
  try {
    run_in(
        context, "cuModuleLoadData", [&] { return "loading " + name; },
        [&] { return api_.cuModuleLoadData(&module, image); });
  } catch (const CudaError&) {
    if (module) unload_module(context, module);
    throw;
  }
  return module;
}

// At the end of a process the driver may be gone already, and says so; nothing is left to do then.
// A child has nothing of its parent's to unload.
void CudaDriver::unload_module(void* context, void* module) const noexcept {
  if (forked_after(ForkSensitive::cuda_driver)) return;
  in_context(api_, context, "cuModuleUnload", [&] { return api_.cuModuleUnload(module); });
}

void* CudaDriver::function(void* context, void* module, const std::string& name) const {
  const auto doing = [&] { return "looking up the kernel " + name; };
  void* function = nullptr;
  run_in(context, "cuModuleGetFunction", doing,
         [&] { return api_.cuModuleGetFunction(&function, module, name.c_str()); });
  // A lazy driver would load at the first launch, which may be inside a graph capture.
  if (api_.cuFuncLoad)
    run_in(context, "cuFuncLoad", doing, [&] { return api_.cuFuncLoad(function); });
  return function;
}

// ---- work on streams ---------------------------------------------------------------------------

void CudaDriver::launch(void* context, void* function, void* stream, unsigned grid, unsigned block,
                        const void* args) const {
  void* params[] = {const_cast<void*>(args)};  // the driver only reads it
  run_in(
      context, "cuLaunchKernel",
      [&] { return str_cat("launching ", grid, " blocks of ", block, " threads"); },
      [&] {
        return api_.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, params, nullptr);
      });
}

void CudaDriver::upload(void* context, void* stream, void* to, const void* from,
                        std::size_t bytes) const {
  const auto target = reinterpret_cast<std::uintptr_t>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const auto copy = [&] {
    int code = 0;
    for (std::size_t at = 0; at < bytes && code == 0; at += kStagedBytes)
      code = api_.cuMemcpyHtoDAsync(target + at, source + at, std::min(kStagedBytes, bytes - at),
                                    stream);
    return code;
  };
  run_in(
      context, "cuMemcpyHtoDAsync",
      [&] { return str_cat("copying ", bytes, " bytes of tables to the GPU"); }, copy);
}

bool CudaDriver::is_capturing(void* context, void* stream) const {
  int status = kCaptureNone;
  run_in(
      context, "cuStreamIsCapturing", [] { return "querying the capture state of a stream"; },
      [&] { return api_.cuStreamIsCapturing(stream, &status); });
  return status != kCaptureNone;
}

void* CudaDriver::create_event(void* context) const {
  void* event = nullptr;
  try {
    run_in(
        context, "cuEventCreate", [] { return "creating an event"; },
        [&] { return api_.cuEventCreate(&event, kDisableTiming); });
  } catch (const CudaError&) {
    if (event) destroy_event(context, event);
    throw;
  }
  return event;
}

void CudaDriver::destroy_event(void* context, void* event) const noexcept {
  if (forked_after(ForkSensitive::cuda_driver)) return;
  in_context(api_, context, "cuEventDestroy", [&] { return api_.cuEventDestroy(event); });
}

void CudaDriver::record_event(void* context, void* event, void* stream) const {
  run_in(
      context, "cuEventRecord", [] { return "recording the end of a step"; },
      [&] { return api_.cuEventRecord(event, stream); });
}

void CudaDriver::wait_event(void* context, void* stream, void* event) const {
  run_in(
      context, "cuStreamWaitEvent", [] { return "ordering a step after one on another stream"; },
      [&] { return api_.cuStreamWaitEvent(stream, event, 0); });
}

CudaDriver& cuda_driver() {
  // Never destroyed: modules may be unloaded while the process ends.
  return lock_free_static<open_driver>();
}

}  // namespace jitstep::jit
