#include "backends.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include "cuda_host.h"
#include "jit/base/fork_safe_map.h"
#include "jit/base/integers.h"
#include "jit/base/lock_free_static.h"
#include "jit/step/cuda_backend.h"
#include "jit/tuning/config_chooser.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/error.h"

namespace jitstep::python {
namespace {

// Entry points of libgomp. LLVM's and Intel's libraries have them too. They are found in the library that torch has
// loaded, so that torch and jitstep share one pool of threads.
struct OpenMp {
  using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
  using Query = int (*)();

  template <class Function>
  static Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }

  Parallel parallel = find<Parallel>("GOMP_parallel");
  Query thread = find<Query>("omp_get_thread_num");
  Query threads = find<Query>("omp_get_num_threads");
  Query is_parallel = find<Query>("omp_in_parallel");

  bool found() const { return parallel && thread && threads && is_parallel; }
};

std::unique_ptr<const OpenMp> find_openmp() { return std::make_unique<const OpenMp>(); }

const OpenMp& openmp() { return jit::lock_free_static<find_openmp>(); }

std::atomic<int> most_threads{1};

// One loop, whose ranges the threads of a region divide among themselves.
struct Loop {
  const std::function<void(std::int64_t, std::int64_t)>& body;
  std::int64_t count;
  std::mutex mutex = {};
  std::exception_ptr error = {};
};

// Called by every thread of the region. An exception must not leave it.
void run_share(void* data) {
  Loop& loop = *static_cast<Loop*>(data);
  const std::int64_t threads = openmp().threads(), thread = openmp().thread();
  const std::int64_t share = jit::ceil_div(loop.count, threads);
  const std::int64_t begin = thread * share, end = std::min(loop.count, begin + share);
  if (begin >= end) return;
  try {
    loop.body(begin, end);
  } catch (...) {
    const std::lock_guard lock(loop.mutex);
    loop.error = std::current_exception();
  }
}

void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t wanted = std::min<std::int64_t>(most_threads, jit::ceil_div(count, grain));
  if (wanted <= 1 || !openmp().found() || openmp().is_parallel()) return body(0, count);
  Loop loop{body, count};
  openmp().parallel(&run_share, &loop, static_cast<unsigned>(wanted), 0);
  if (loop.error) std::rethrow_exception(loop.error);
}

// Set once, before there is a back end.
std::string& nvrtc_folder() {
  static auto& folder = *new std::string;
  return folder;
}

// Tuning records are for a number of threads.
int threads_of_steps() { return std::min(most_threads.load(), jit::host_hardware().units); }

using Backends = jit::ForkSafeMap<Device, std::unique_ptr<jit::Backend>>;

// Never destroyed.
Backends& backends() {
  static Backends& only = *new Backends;
  return only;
}

[[maybe_unused]] const Backends& made_at_load = backends();

std::unique_ptr<jit::Backend> make_backend(const Device& device) {
  jit::Engine& engine = jit::default_engine();
  if (device.is_cpu())
    return std::make_unique<jit::CpuBackend>(engine, parallel_for,
                                             jit::recorded_host_configs(engine, &threads_of_steps));
  if (!device.is_supported())
    throw jit::Error("only CPU and CUDA devices have kernels. Move the parameter to one of them.");
  if (!nvrtc_folder().empty()) engine.add_nvrtc_folder(nvrtc_folder());
  return std::make_unique<jit::CudaBackend>(engine, device.index, torch_cuda_host(device));
}

}  // namespace

jit::Backend& backend_of(const Device& device) {
  return *backends().get(device, [&] { return make_backend(device); });
}

void check_not_capturing(const Device& device) {
  if (!device.is_cpu() && backend_of(device).is_capturing())
    throw jit::Error(
        "a CUDA graph capture cannot contain this call, because a graph cannot repeat compilation, "
        "new state, or step numbers on the CPU. To capture step(), set capturable=True in all "
        "parameter groups, and call step() once with the same parameters before the capture. "
        "Optimizers with auxiliary state, shared state, inputs, modes or matrix iterations always "
        "have step numbers on the CPU. Call their step() after the replay.");
}

jit::Hardware hardware_of(const Device& device) {
  return device.is_cpu() ? jit::host_hardware(threads_of_steps())
                         : jit::gpu_hardware(jit::default_engine(), device.index);
}

void use_package(const std::string& kernels, const std::string& compiler,
                 const std::string& nvrtc) {
  static std::once_flag once;  // a module may be imported again
  std::call_once(once, [&] {
    nvrtc_folder() = nvrtc;
    jit::set_default_settings([kernels, compiler](jit::Settings& settings) {
      settings.packaged_kernels = kernels;
      settings.packaged_cxx = compiler;
    });
  });
}

void set_threads(int count) { most_threads = count; }

bool has_openmp() { return openmp().found(); }

}  // namespace jitstep::python
