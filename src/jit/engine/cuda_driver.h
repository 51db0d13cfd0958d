// The few functions of the CUDA driver that jitstep calls, opened at run time.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "jit/base/fork_guard.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The driver's functions with their handles as plain pointers and their results as CUresult (0 is
/// success). Tests fill this table with functions of their own. See the CUDA driver API manual.
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
                        void* stream, void** params, void** residual) = nullptr;
  int (*cuMemcpyHtoDAsync)(unsigned long long to, const void* from, std::size_t bytes,
                           void* stream) = nullptr;
  int (*cuStreamIsCapturing)(void* stream, int* status) = nullptr;
  int (*cuStreamWaitEvent)(void* stream, void* event, unsigned flags) = nullptr;
  int (*cuEventCreate)(void** event, unsigned flags) = nullptr;
  int (*cuEventRecord)(void* event, void* stream) = nullptr;
  int (*cuEventDestroy)(void* event) = nullptr;
  /// From driver 12.4; may be null. Loads a function before its first launch.
  int (*cuFuncLoad)(void* function) = nullptr;
};

/// Opens a driver library and looks up its functions. An Error says what to install if there is none,
/// or which functions it lacks.
CudaApi open_cuda_api(const std::string& library = "libcuda.so.1");

/// The CUDA version that the installed driver library supports, such as 13000; 0 if there is none.
/// Starts nothing: cuInit is not called.
int installed_driver_version(const std::string& library = "libcuda.so.1");

/// What the front end and the tuner want to know about a GPU.
struct CudaDevice {
  int ordinal = 0;
  int sm = 0;  // compute capability times ten
  int multiprocessors = 0;
  int l2_bytes = 0;
};

/// The driver behind checked calls. Every failure is a CudaError that says what was being done, what
/// the driver answered and what to do; contexts that were made current for a call are put back.
/// In a child of a process that had made a CudaDriver before fork(), every call is an Error.
/// Thread safe. Devices are numbered as the driver does it, which is torch's numbering.
class JITSTEP_API CudaDriver {
 public:
  /// Calls cuInit.
  explicit CudaDriver(const CudaApi& api);

  /// The CUDA version the driver supports, such as 13000.
  int version() const { return version_; }
  int device_count() const;
  CudaDevice device(int ordinal) const;

  /// The primary context of a device, retained once and kept until the process ends.
  void* primary_context(int ordinal);

  /// Modules and their functions; `name` is for messages.
  void* load_module(void* context, const void* image, const std::string& name) const;
  void unload_module(void* context, void* module) const noexcept;
  void* function(void* context, void* module, const std::string& name) const;

  /// One launch in `context`; `args` points to the kernel's only parameter.
  void launch(void* context, void* function, void* stream, unsigned grid, unsigned block,
              const void* args) const;

  /// Copies ordinary host memory, which may change as soon as this returns.
  void upload(void* context, void* stream, void* to, const void* from, std::size_t bytes) const;

  /// True while `stream` records a CUDA graph, or did until a forbidden call: nothing can be done
  /// on it then.
  bool is_capturing(void* context, void* stream) const;

  /// Events order streams; they do not measure time.
  void* create_event(void* context) const;
  void destroy_event(void* context, void* event) const noexcept;
  void record_event(void* context, void* event, void* stream) const;
  /// Makes later work on `stream` wait for what was recorded last.
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

/// The process's driver, opened at first use. An Error says what to install if there is none.
JITSTEP_API CudaDriver& cuda_driver();

/// A function of a loaded GPU module that can be launched. Valid as long as its Kernel.
class JITSTEP_API CudaEntry {
 public:
  CudaEntry() = default;
  /// Made by a Kernel; the driver must outlive it.
  CudaEntry(const CudaDriver* driver, void* context, void* function)
      : driver_(driver), context_(context), function_(function) {}

  /// Starts `grid` blocks of `block` threads on a CUstream; `args` points to the only parameter.
  void launch(void* stream, unsigned grid, unsigned block, const void* args) const {
    driver_->launch(context_, function_, stream, grid, block, args);
  }

 private:
  const CudaDriver* driver_ = nullptr;
  void* context_ = nullptr;
  void* function_ = nullptr;
};

}  // namespace jitstep::jit
