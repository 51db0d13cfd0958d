// The functions of libcuda.so.1 that the library and its tests use. See the CUDA driver API manual.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "support/ptx_driver/driver.h"

using namespace jitstep::ptx;
using namespace jitstep::ptx::driver;

namespace {

constexpr int kVersion = 13000;

// Executes a call if admit() allows it. Calls run one at a time.
template <class Call>
int answer(const char* name, const Call& call) {
  std::lock_guard lock(the_driver().mutex);
  if (const int code = the_driver().admit(name)) return code;
  return call(the_driver());
}

int with_stream(Driver& driver, void* handle, const auto& call) {
  Stream* const stream = driver.stream(handle);
  return stream == nullptr ? kInvalidHandle : call(*stream);
}

struct ErrorName {
  int code;
  const char* name;
  const char* sentence;
};
constexpr ErrorName kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

const ErrorName* error_of(int code) {
  const auto* const found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                         [&](const ErrorName& one) { return one.code == code; });
  return found == std::end(kErrors) ? nullptr : found;
}

}  // namespace

#define CUDA extern "C" __attribute__((visibility("default"))) int

CUDA cuInit(unsigned) {
  return answer("cuInit", [](Driver&) { return 0; });
}
CUDA cuDriverGetVersion(int* version) {
  return answer("cuDriverGetVersion", [&](Driver&) { return *version = kVersion, 0; });
}
CUDA cuGetErrorName(int code, const char** name) {
  const ErrorName* const known = error_of(code);
  *name = known == nullptr ? nullptr : known->name;
  return known == nullptr ? kInvalidValue : 0;
}
CUDA cuGetErrorString(int code, const char** sentence) {
  const ErrorName* const known = error_of(code);
  *sentence = known == nullptr ? nullptr : known->sentence;
  return known == nullptr ? kInvalidValue : 0;
}

// NVRTC asks every driver for tables of functions, but works without them.
CUDA cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return kNotFound;
}

// ---- devices and contexts -----------------------------------------------------------------------

CUDA cuDeviceGetCount(int* count) {
  return answer("cuDeviceGetCount", [&](Driver& driver) {
    return *count = static_cast<int>(driver.devices.size()), 0;
  });
}
CUDA cuDeviceGet(int* device, int ordinal) {
  return answer("cuDeviceGet", [&](Driver& driver) {
    return driver.device(ordinal) == nullptr ? kInvalidDevice : (*device = ordinal, 0);
  });
}
CUDA cuDeviceGetName(char* name, int size, int ordinal) {
  return answer("cuDeviceGetName", [&](Driver& driver) {
    if (driver.device(ordinal) == nullptr) return kInvalidDevice;
    std::snprintf(name, static_cast<std::size_t>(size), "PTX machine");
    return 0;
  });
}
CUDA cuDeviceGetAttribute(int* value, int attribute, int ordinal) {
  return answer("cuDeviceGetAttribute", [&](Driver& driver) {
    const Device* const device = driver.device(ordinal);
    if (device == nullptr) return kInvalidDevice;
    switch (attribute) {
      case 16:
        return *value = 2, 0;  // few multiprocessors, so that a block has several items
      case 38:
        return *value = 50 << 20, 0;  // bytes of the L2 cache
      case 75:
        return *value = device->sm / 10, 0;
      case 76:
        return *value = device->sm % 10, 0;
      default:
        return kInvalidValue;
    }
  });
}
CUDA cuDevicePrimaryCtxRetain(void** context, int ordinal) {
  return answer("cuDevicePrimaryCtxRetain", [&](Driver& driver) {
    Device* const device = driver.device(ordinal);
    return device == nullptr ? kInvalidDevice : (*context = device, 0);
  });
}
CUDA cuCtxGetCurrent(void** context) {
  return answer("cuCtxGetCurrent", [&](Driver& driver) { return *context = driver.current(), 0; });
}
CUDA cuCtxPushCurrent_v2(void* context) {
  return answer("cuCtxPushCurrent",
                [&](Driver&) { return contexts().push_back(static_cast<Device*>(context)), 0; });
}
// A pop that reports an error of earlier work has still restored the context.
CUDA cuCtxPopCurrent_v2(void** context) {
  if (contexts().empty()) return kInvalidContext;
  *context = contexts().back();
  contexts().pop_back();
  return answer("cuCtxPopCurrent", [](Driver&) { return 0; });
}
CUDA cuCtxSetCurrent(void* context) {
  return answer("cuCtxSetCurrent", [&](Driver&) {
    std::vector<Device*>& stack = contexts();
    if (!stack.empty()) stack.pop_back();
    if (context != nullptr) stack.push_back(static_cast<Device*>(context));
    return 0;
  });
}
CUDA cuCtxSynchronize() {
  return answer("cuCtxSynchronize", [](Driver& driver) {
    return driver.current() == nullptr ? kInvalidContext
                                       : driver.synchronize_context(*driver.current());
  });
}

// ---- modules ------------------------------------------------------------------------------------

CUDA cuModuleLoadData(void** module, const void* image) {
  return answer("cuModuleLoadData", [&](Driver& driver) { return driver.load(module, image); });
}
// An unload that reports an error of earlier work has still unloaded the module.
CUDA cuModuleUnload(void* module) {
  std::lock_guard lock(the_driver().mutex);
  const int code = the_driver().admit("cuModuleUnload");
  const int unloaded = the_driver().unload(module);
  return code != 0 ? code : unloaded;
}
CUDA cuModuleGetFunction(void** function, void* module, const char* name) {
  return answer("cuModuleGetFunction",
                [&](Driver& driver) { return driver.function(function, module, name); });
}
CUDA cuFuncLoad(void*) {
  return answer("cuFuncLoad", [](Driver&) { return 0; });
}
CUDA cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                    void* stream, void** params, void** residual) {
  return answer("cuLaunchKernel", [&](Driver& driver) {
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared != 0 ||
        residual != nullptr)
      return kInvalidValue;
    return driver.launch(function, grid_x, block_x, stream, params);
  });
}

// ---- memory -------------------------------------------------------------------------------------

CUDA cuMemAlloc_v2(Address* memory, std::size_t bytes) {
  return answer("cuMemAlloc", [&](Driver& driver) { return driver.allocate(memory, bytes); });
}
CUDA cuMemFree_v2(Address memory) {
  return answer("cuMemFree", [&](Driver& driver) { return driver.free(memory); });
}
CUDA cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  return answer("cuMemcpyHtoD", [&](Driver& driver) {
    const int code = driver.upload(to, from, bytes, nullptr);
    with_stream(driver, nullptr, [&](Stream& stream) { return driver.synchronize(stream); });
    return code;
  });
}
CUDA cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void* stream) {
  return answer("cuMemcpyHtoDAsync",
                [&](Driver& driver) { return driver.upload(to, from, bytes, stream); });
}
CUDA cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  return answer("cuMemcpyDtoH", [&](Driver& driver) { return driver.download(to, from, bytes); });
}
CUDA cuMemsetD8_v2(Address to, unsigned char value, std::size_t bytes) {
  return answer("cuMemsetD8", [&](Driver& driver) { return driver.fill(to, value, bytes); });
}

// ---- streams and events -------------------------------------------------------------------------

CUDA cuStreamCreate(void** stream, unsigned flags) {
  return answer("cuStreamCreate",
                [&](Driver& driver) { return driver.create_stream(stream, flags); });
}
CUDA cuStreamDestroy_v2(void* stream) {
  return answer("cuStreamDestroy", [&](Driver& driver) { return driver.destroy_stream(stream); });
}
CUDA cuStreamSynchronize(void* handle) {
  return answer("cuStreamSynchronize", [&](Driver& driver) {
    return with_stream(driver, handle, [&](Stream& stream) { return driver.synchronize(stream); });
  });
}
CUDA cuStreamIsCapturing(void* handle, int* status) {
  return answer("cuStreamIsCapturing", [&](Driver& driver) {
    return with_stream(driver, handle,
                       [&](Stream& stream) { return *status = stream.capture_status(), 0; });
  });
}
CUDA cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return answer("cuStreamWaitEvent", [&](Driver& driver) {
    return flags != 0 ? kInvalidValue : driver.wait(stream, event);
  });
}
CUDA cuEventCreate(void** event, unsigned) {
  return answer("cuEventCreate", [&](Driver& driver) { return driver.create_event(event); });
}
CUDA cuEventRecord(void* event, void* stream) {
  return answer("cuEventRecord", [&](Driver& driver) { return driver.record(event, stream); });
}
CUDA cuEventDestroy_v2(void* event) {
  std::lock_guard lock(the_driver().mutex);
  const int code = the_driver().admit("cuEventDestroy");
  const int destroyed = the_driver().destroy_event(event);
  return code != 0 ? code : destroyed;
}

// ---- graphs -------------------------------------------------------------------------------------

CUDA cuStreamBeginCapture_v2(void* handle, int mode) {
  return answer("cuStreamBeginCapture", [&](Driver& driver) {
    return with_stream(driver, handle,
                       [&](Stream& stream) { return driver.begin_capture(stream, mode); });
  });
}
CUDA cuStreamEndCapture(void* handle, void** graph) {
  return answer("cuStreamEndCapture", [&](Driver& driver) {
    return with_stream(driver, handle,
                       [&](Stream& stream) { return driver.end_capture(stream, graph); });
  });
}
CUDA cuGraphInstantiateWithFlags(void** made, void* graph, unsigned long long) {
  return answer("cuGraphInstantiate",
                [&](Driver& driver) { return driver.instantiate(made, graph); });
}
CUDA cuGraphLaunch(void* graph, void* handle) {
  return answer("cuGraphLaunch", [&](Driver& driver) {
    return with_stream(driver, handle,
                       [&](Stream& stream) { return driver.launch_graph(graph, stream); });
  });
}
CUDA cuGraphExecDestroy(void* graph) {
  return answer("cuGraphExecDestroy", [&](Driver& driver) { return driver.destroy_graph(graph); });
}
CUDA cuGraphDestroy(void* graph) {
  return answer("cuGraphDestroy", [&](Driver& driver) { return driver.destroy_graph(graph); });
}

// ---- functions for tests ------------------------------------------------------------------------

namespace jitstep::ptx::driver {

void fail(const std::string& call, int code, int spared) {
  std::lock_guard lock(the_driver().mutex);
  the_driver().failing[call] = {code, spared};
}

void recover() {
  std::lock_guard lock(the_driver().mutex);
  the_driver().failing.clear();
  for (Device& device : the_driver().devices) device.broken = 0;
  the_driver().fault.clear();
}

std::string last_fault() {
  std::lock_guard lock(the_driver().mutex);
  return the_driver().fault;
}

std::vector<LaunchRecord> take_launches() {
  std::lock_guard lock(the_driver().mutex);
  return std::exchange(the_driver().launches, {});
}

std::vector<std::string> function_names() {
  return {"cuInit",
          "cuDriverGetVersion",
          "cuDeviceGetCount",
          "cuDeviceGet",
          "cuDeviceGetAttribute",
          "cuDevicePrimaryCtxRetain",
          "cuCtxGetCurrent",
          "cuCtxPushCurrent",
          "cuCtxPopCurrent",
          "cuModuleLoadData",
          "cuModuleUnload",
          "cuModuleGetFunction",
          "cuFuncLoad",
          "cuLaunchKernel",
          "cuMemcpyHtoDAsync",
          "cuStreamIsCapturing",
          "cuStreamWaitEvent",
          "cuEventCreate",
          "cuEventRecord",
          "cuEventDestroy",
          "cuMemAlloc"};
}

std::size_t calls(const std::string& name) {
  std::lock_guard lock(the_driver().mutex);
  return the_driver().called[name];
}

Open open_now() {
  std::lock_guard lock(the_driver().mutex);
  return the_driver().open();
}

}  // namespace jitstep::ptx::driver
