// The CUDA driver functions that jitstep calls, opened at run time.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "jit/base/fork_guard.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Driver functions, with handles as plain pointers and CUresult as int (0 is success). Tests fill this table with
/// their own functions. See the CUDA driver API manual.
struct JITSTEP_API CudaApi {
  int (*cuInit)(unsigned flags) = nullptr;
  int (*cuDriverGetVersion)(int* version) = nullptr;
  int (*cuGetErrorName)(int code, const char** name) = nullptr;
  int (*cuGetErrorString)(int code, const char** sentence) = nullptr;
  int (*cuDeviceGetCount)(int* count) = nullptr;
  int (*cuDeviceGet)(int* device, int ordinal) = nullptr;
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device) = nullptr;
  int (*cuDevicePrimaryCtxRetain)(void** context, int device) = nullptr;
  int (*cuCtxGetCurrent)(void** context) = nullptr;
  int (*cuCtxPushCurrent)(void* context) = nullptr;
  int (*cuCtxPopCurrent)(void** context) = nullptr;
  int (*cuModuleLoadData)(void** module, const void* image) = nullptr;
  int (*cuModuleUnload)(void* module) = nullptr;
  int (*cuModuleGetFunction)(void** function, void* module, const char* name) = nullptr;
  int (*cuLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        void* stream, void** params, void** extra) = nullptr;
  int (*cuMemcpyHtoDAsync)(unsigned long long to, const void* from, std::size_t bytes,
                           void* stream) = nullptr;
  int (*cuStreamIsCapturing)(void* stream, int* status) = nullptr;
  int (*cuStreamWaitEvent)(void* stream, void* event, unsigned flags) = nullptr;
  int (*cuEventCreate)(void** event, unsigned flags) = nullptr;
  int (*cuEventRecord)(void* event, void* stream) = nullptr;
  int (*cuEventDestroy)(void* event) = nullptr;
  /// Since driver 12.4. May be null. Loads a function before its first launch.
  int (*cuFuncLoad)(void* function) = nullptr;
};

/// Opens a driver library and looks up its functions. Throws an Error with installation advice if there is none, or
/// with the functions it lacks.
CudaApi open_cuda_api(const std::string& library = "libcuda.so.1");

/// The CUDA version that the installed driver library supports, such as 13000. 0 if there is none. Does not call
/// cuInit.
int installed_driver_version(const std::string& library = "libcuda.so.1");

/// Properties of a GPU for the front end and the tuner.
struct CudaDevice {
  int ordinal = 0;
  int sm = 0;  // compute capability times ten
  int multiprocessors = 0;
  int l2_bytes = 0;
};

/// The driver with checked calls. Every failure throws a CudaError with the operation, the driver's answer and advice.
/// The current context is restored after each call. In a child of a process that had made a CudaDriver before fork(),
/// every call throws an Error. Thread safe. Devices have the driver's numbers, which are also torch's.
class JITSTEP_API CudaDriver {
 public:
  /// Calls cuInit.
  explicit CudaDriver(const CudaApi& api);

  /// The CUDA version the driver supports, such as 13000.
  int version() const { return version_; }
  int device_count() const;
  CudaDevice device(int ordinal) const;

  /// The primary context of a device, retained once and never released.
  void* primary_context(int ordinal);

  /// Modules and their functions. `name` is for messages.
  void* load_module(void* context, const void* image, const std::string& name) const;
  void unload_module(void* context, void* module) const noexcept;
  void* function(void* context, void* module, const std::string& name) const;

  /// One launch in `context`. `args` points to the kernel's only parameter.
  void launch(void* context, void* function, void* stream, unsigned grid, unsigned block,
              const void* args) const;

  /// Copies pageable host memory, which may change as soon as this returns.
  void upload(void* context, void* stream, void* to, const void* from, std::size_t bytes) const;

  /// True while `stream` is captured into a CUDA graph, also after a forbidden call has invalidated the capture. The
  /// stream cannot execute work then.
  bool is_capturing(void* context, void* stream) const;

  /// Events order streams. They do not measure time.
  void* create_event(void* context) const;
  void destroy_event(void* context, void* event) const noexcept;
  void record_event(void* context, void* event, void* stream) const;
  /// Lets later work on `stream` wait for the last recorded event.
  void wait_event(void* context, void* stream, void* event) const;

 private:
  template <class Doing, class Call>
  void run(const char* name, const Doing& doing, const Call& call) const;
  template <class Doing, class Call>
  void run_in(void* context, const char* name, const Doing& doing, const Call& call) const;
  [[noreturn]] void fail(int code, const char* call, const std::string& doing) const;

  CudaApi api_;
  int version_ = 0;
  ForkSafeMutex mutex_;
  std::map<int, void*> contexts_;
};

/// The process's driver, opened on first use. Throws an Error with installation advice if there is none.
JITSTEP_API CudaDriver& cuda_driver();

/// A launchable function of a loaded GPU module. Valid as long as its Kernel.
class JITSTEP_API CudaEntry {
 public:
  CudaEntry() = default;
  /// Only a Kernel makes it. The driver must outlive it.
  CudaEntry(const CudaDriver* driver, void* context, void* function)
      : driver_(driver), context_(context), function_(function) {}

  /// Launches `grid` blocks of `block` threads on a CUstream. `args` points to the only parameter.
  void launch(void* stream, unsigned grid, unsigned block, const void* args) const {
    driver_->launch(context_, function_, stream, grid, block, args);
  }

 private:
  const CudaDriver* driver_ = nullptr;
  void* context_ = nullptr;
  void* function_ = nullptr;
};

}  // namespace jitstep::jit
