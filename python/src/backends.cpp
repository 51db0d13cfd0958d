#include "backends.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "jitstep/jit/engine.h"

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

const OpenMp& openmp() {
  static const OpenMp library;
  return library;
}

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
  const std::int64_t share = (loop.count + threads - 1) / threads;
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
  const std::int64_t wanted = std::min<std::int64_t>(most_threads, (count + grain - 1) / grain);
  if (wanted <= 1 || !openmp().found() || openmp().is_parallel()) return body(0, count);
  Loop loop{body, count};
  openmp().parallel(&run_share, &loop, static_cast<unsigned>(wanted), 0);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace

jit::Backend& cpu_backend() {
  static jit::Backend& backend = *new jit::CpuBackend(jit::default_engine(), parallel_for);
  return backend;
}

void use_package(const std::string& kernels, const std::string& compiler) {
  static std::once_flag once;  // a module may be imported again
  std::call_once(once, [&] {
    jit::set_default_settings([kernels, compiler](jit::Settings& settings) {
      settings.packaged_kernels = kernels;
      settings.packaged_cxx = compiler;
    });
  });
}

void set_threads(int count) { most_threads = count; }

bool has_openmp() { return openmp().found(); }

}  // namespace jitstep::python
