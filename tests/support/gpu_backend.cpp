#include "support/gpu_backend.h"

#include <dlfcn.h>

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/engine/cuda_driver.h"
#include "jit/engine/engine_parts.h"
#include "jitstep/jit/error.h"

namespace jitstep::support {
namespace {

constexpr int kOrdinal = 0;
constexpr unsigned char kGarbage = 0xCD;

using Address = unsigned long long;

Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

void check(int code, const char* call) {
  if (code != 0) throw jit::CudaError(jit::str_cat(call, " returned ", code), call, code);
}

class GpuLaunches : public jit::Launches {
 public:
  GpuLaunches(std::shared_ptr<const jit::Kernel> kernel, const std::vector<std::string>& entries,
              unsigned threads, unsigned blocks)
      : kernel_(std::move(kernel)), threads_(threads), blocks_(blocks) {
    for (const auto& entry : entries) entries_.push_back(kernel_->cuda(entry));
  }

  void launch(int entry, const Args& args) override {
    const auto grid = static_cast<unsigned>(std::min<std::int64_t>(blocks_, args.item_count));
    entries_[entry].launch(nullptr, grid, threads_, &args);
  }

 private:
  std::shared_ptr<const jit::Kernel> kernel_;
  std::vector<jit::CudaEntry> entries_;
  unsigned threads_, blocks_;
};

}  // namespace

// The driver's memory functions. The library leaves memory to torch, so it does not look them up.
struct GpuBackend::Driver {
  int (*cuCtxSetCurrent)(void* context) = nullptr;
  int (*cuMemAlloc)(Address* memory, std::size_t bytes) = nullptr;
  int (*cuMemFree)(Address memory) = nullptr;
  int (*cuMemcpyHtoD)(Address to, const void* from, std::size_t bytes) = nullptr;
  int (*cuMemcpyDtoH)(void* to, Address from, std::size_t bytes) = nullptr;
  int (*cuMemsetD8)(Address to, unsigned char value, std::size_t bytes) = nullptr;

  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto load = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          library ? dlsym(library, name) : nullptr);
      if (!function) throw jit::Error(jit::str_cat("libcuda.so.1 has no ", name));
    };
    load("cuCtxSetCurrent", cuCtxSetCurrent);
    load("cuMemAlloc_v2", cuMemAlloc);
    load("cuMemFree_v2", cuMemFree);
    load("cuMemcpyHtoD_v2", cuMemcpyHtoD);
    load("cuMemcpyDtoH_v2", cuMemcpyDtoH);
    load("cuMemsetD8_v2", cuMemsetD8);
  }
};

GpuBackend::GpuBackend(jit::Engine& engine, unsigned blocks, Fresh fresh)
    : engine_(engine),
      target_(engine.cuda_target(kOrdinal)),
      blocks_(blocks),
      fresh_(fresh),
      driver_(std::make_shared<Driver>()) {
  check(driver_->cuCtxSetCurrent(driver_of(engine).primary_context(kOrdinal)), "cuCtxSetCurrent");
}

GpuBackend::~GpuBackend() = default;

std::shared_ptr<const jit::Kernel> GpuBackend::load(const std::string& translation_unit,
                                                    const std::string& name) {
  return engine_.kernel(translation_unit, name, target_, kOrdinal);
}

std::unique_ptr<jit::Launches> GpuBackend::launches(std::shared_ptr<const jit::Kernel> kernel,
                                                    const std::vector<std::string>& entries,
                                                    const jit::KernelConfig& config) {
  return std::make_unique<GpuLaunches>(std::move(kernel), entries,
                                       static_cast<unsigned>(config.threads), blocks_);
}

std::shared_ptr<void> GpuBackend::allocate(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  Address memory = 0;
  check(driver_->cuMemAlloc(&memory, size), "cuMemAlloc");
  std::shared_ptr<void> owner(reinterpret_cast<void*>(memory),
                              [driver = driver_](void* p) { driver->cuMemFree(address_of(p)); });
  if (fresh_ == Fresh::kGarbage) check(driver_->cuMemsetD8(memory, kGarbage, size), "cuMemsetD8");
  return owner;
}

void GpuBackend::upload(void* to, const void* from, std::size_t bytes) {
  check(driver_->cuMemcpyHtoD(address_of(to), from, bytes), "cuMemcpyHtoD");
}

void GpuBackend::download(void* to, const void* from, std::size_t bytes) {
  check(driver_->cuMemcpyDtoH(to, address_of(from), bytes), "cuMemcpyDtoH");
}

Device GpuBackend::device() {
  return {*this, [this](void* to, const void* from, std::size_t n) { download(to, from, n); }};
}

}  // namespace jitstep::support
