#include "tuning/cuda_device.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/engine/cuda_driver.h"
#include "jit/step/cuda_backend.h"
#include "jitstep/jit/error.h"
#include "tuning/compiled_model.h"
#include "tuning/cuda_memory.h"

namespace jitstep::tuning {
namespace {

using jit::str_cat;

// The bandwidth baseline: a loop over vectors that it reads and writes (`both`) and vectors that it only reads
// (`read`). The last line keeps the compiler from removing the reads. It never writes, because filled() sets no byte's
// highest bit.
constexpr const char* kBaseline = R"(
  struct Args { uint4* both; const uint4* read; long long both_vectors, read_vectors; };
  extern "C" __global__ void __launch_bounds__(256) baseline(const Args args) {
    const long long first = blockIdx.x * 256ll + threadIdx.x, all = gridDim.x * 256ll;
    unsigned any = 0;
    #pragma unroll 4
    for (long long i = first; i < args.read_vectors; i += all) {
      const uint4 v = args.read[i];
      any |= v.x | v.y | v.z | v.w;
    }
    #pragma unroll 4
    for (long long i = first; i < args.both_vectors; i += all) {
      uint4 v = args.both[i];
      v.x ^= 1; v.y ^= 1; v.z ^= 1; v.w ^= 1;
      args.both[i] = v;
    }
    if (any >> 31) args.both[0].x = any;
  })";
constexpr std::int64_t kVector = 16, kThreads = 256, kBlocksPerUnit = 8;  // fill a multiprocessor

// Mirrors `Args` of the kernel.
struct BaselineArgs {
  void* both;
  const void* read;
  std::int64_t both_vectors, read_vectors;
};

std::int64_t vectors_of(std::int64_t bytes) { return (bytes + kVector - 1) / kVector; }

jit::Hardware hardware_of(jit::Engine& engine, int device, const CudaMemory& memory) {
  jit::Hardware made = jit::gpu_hardware(engine, device);
  made.name = memory.device_name();
  return made;
}

}  // namespace

int gpu_of(jit::Engine& engine, const jit::Target& target, std::optional<int> requested) {
  const jit::CudaDriver& driver = driver_of(engine);
  std::vector<std::string> found;
  for (int i = 0; i < driver.device_count(); ++i) {
    const int sm = driver.device(i).sm;
    if (sm == target.sm && requested.value_or(i) == i) return i;
    found.push_back(str_cat("GPU ", i, " is sm_", sm));
  }
  if (found.empty()) found.emplace_back("there is no GPU");
  // Callers append what to do, so the message has no final period.
  throw jit::Error(str_cat(requested ? str_cat("GPU ", *requested, " is not ") : "no GPU here is ",
                           to_string(target), ": ", jit::joined(found)));
}

CudaDevice::Parts CudaDevice::make_parts(jit::Engine& engine, int device) {
  auto memory = std::make_unique<CudaMemory>(driver_of(engine), device);
  CudaMemory* const pointer = memory.get();
  return {pointer, std::make_unique<jit::CudaBackend>(engine, device, std::move(memory))};
}

CudaDevice::CudaDevice(jit::Engine& engine, int device, const CudaLimits& limits, Clock clock)
    : CudaDevice(engine, device, limits, std::move(clock), make_parts(engine, device)) {}

CudaDevice::CudaDevice(jit::Engine& engine, int device, const CudaLimits& limits, Clock clock,
                       Parts parts)
    : ScratchDevice(engine, hardware_of(engine, device, *parts.memory), std::move(parts.backend),
                    {limits.scratch_bytes, limits.least_seconds}, clock),
      memory_(*parts.memory),
      device_(device),
      order_seconds_(limits.order_seconds),
      clock_(std::move(clock)) {}

Model CudaDevice::model(const Workload& workload) {
  return compiled_model(engine(), workload, hardware(), order_seconds_, clock_);
}

void CudaDevice::finish() { memory_.finish(); }

void CudaDevice::download(void* to, const void* from, std::size_t bytes) {
  memory_.download(to, from, bytes);
}

std::function<void()> CudaDevice::make_baseline(const Workload& workload) {
  const MemoryTraffic moved = moved_by(workload);
  const auto kernel = engine().kernel(kBaseline, "baseline", hardware().target, device_);
  const std::int64_t both_vectors = vectors_of(moved.both), read_vectors = vectors_of(moved.read);
  const auto both = filled(both_vectors * kVector), read = filled(read_vectors * kVector);
  const BaselineArgs args = {both.get(), read.get(), both_vectors, read_vectors};
  const std::int64_t needed = (std::max(both_vectors, read_vectors) + kThreads - 1) / kThreads;
  const auto blocks = std::min<std::int64_t>(needed, kBlocksPerUnit * hardware().units);
  return [this, kernel, both, read, args, blocks, entry = kernel->cuda("baseline")] {
    entry.launch(memory_.stream(), static_cast<unsigned>(blocks), kThreads, &args);
  };
}

}  // namespace jitstep::tuning
