#include "tuning/cuda_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>

#include "jit/base/text.h"
#include "jit/engine/cuda_errors.h"
#include "jitstep/jit/error.h"

namespace jitstep::tuning {
namespace {

using Address = unsigned long long;
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

Address address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

// Driver functions as cuda.h declares them. Shared, because memory may be freed after its CudaMemory was destroyed.
struct CudaMemory::Api {
  int (*cuCtxSetCurrent)(void* context) = nullptr;
  int (*cuDeviceGetName)(char* name, int size, int device) = nullptr;
  int (*cuGetErrorName)(int code, const char** name) = nullptr;
  int (*cuMemAlloc)(Address* memory, std::size_t bytes) = nullptr;
  int (*cuMemFree)(Address memory) = nullptr;
  int (*cuMemcpyDtoH)(void* to, Address from, std::size_t bytes) = nullptr;
  int (*cuStreamCreate)(void** stream, unsigned flags) = nullptr;
  int (*cuStreamDestroy)(void* stream) = nullptr;
  int (*cuStreamSynchronize)(void* stream) = nullptr;

  Api() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto load = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          library ? dlsym(library, name) : nullptr);
      if (!function)
        throw jit::Error(jit::str_cat("cannot use libcuda.so.1: it is missing or lacks ", name,
                                      ". Install a current NVIDIA driver."));
    };
    load("cuCtxSetCurrent", cuCtxSetCurrent);
    load("cuDeviceGetName", cuDeviceGetName);
    load("cuGetErrorName", cuGetErrorName);
    load("cuMemAlloc_v2", cuMemAlloc);
    load("cuMemFree_v2", cuMemFree);
    load("cuMemcpyDtoH_v2", cuMemcpyDtoH);
    load("cuStreamCreate", cuStreamCreate);
    load("cuStreamDestroy_v2", cuStreamDestroy);
    load("cuStreamSynchronize", cuStreamSynchronize);
  }
};

CudaMemory::CudaMemory(jit::CudaDriver& driver, int device)
    : api_(std::make_shared<Api>()), context_(driver.primary_context(device)), device_(device) {
  run("cuCtxSetCurrent", api_->cuCtxSetCurrent(context_));
  run("cuStreamCreate", api_->cuStreamCreate(&stream_, kNonBlocking));
}

CudaMemory::~CudaMemory() {
  api_->cuCtxSetCurrent(context_);
  api_->cuStreamDestroy(stream_);
}

void CudaMemory::run(const char* call, int code) const {
  if (code == 0) return;
  const char* name = nullptr;
  if (api_->cuGetErrorName(code, &name) != 0 || name == nullptr) name = "an unknown error";
  const std::string_view advice = jit::cuda_advice(code);
  throw jit::CudaError(jit::str_cat("tuning on GPU ", device_, " failed: ", call, " returned ",
                                    name, " (", code, ")", advice.empty() ? "" : ". ", advice),
                       call, code);
}

std::shared_ptr<void> CudaMemory::allocate(std::size_t bytes) {
  run("cuCtxSetCurrent", api_->cuCtxSetCurrent(context_));
  Address memory = 0;
  run("cuMemAlloc", api_->cuMemAlloc(&memory, std::max<std::size_t>(bytes, 1)));
  // The driver frees the memory after running work completes.
  return {reinterpret_cast<void*>(memory), [api = api_, context = context_](void* p) {
            api->cuCtxSetCurrent(context);
            api->cuMemFree(address_of(p));
          }};
}

void CudaMemory::finish() {
  run("cuCtxSetCurrent", api_->cuCtxSetCurrent(context_));
  run("cuStreamSynchronize", api_->cuStreamSynchronize(stream_));
}

void CudaMemory::download(void* to, const void* from, std::size_t bytes) {
  finish();
  run("cuMemcpyDtoH", api_->cuMemcpyDtoH(to, address_of(from), bytes));
}

std::string CudaMemory::device_name() const {
  char name[256] = {};
  run("cuDeviceGetName", api_->cuDeviceGetName(name, sizeof name - 1, device_));
  return name;
}

}  // namespace jitstep::tuning
