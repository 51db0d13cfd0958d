#include "tuning/host_device.h"

#include <algorithm>
#include <cstring>

namespace jitstep::tuning {
namespace {

constexpr std::int64_t kElementsPerItem = 4096;

// The bandwidth baseline: a loop over bytes that it reads and writes (`both`) and bytes that it only reads (`read`), in
// equal parts per item. The last line keeps the compiler from removing the reads.
constexpr const char* kBaseline = R"(
  struct Args { unsigned char* both; const unsigned char* read; long long both_bytes, read_bytes, items; };
  static long long share(long long bytes, long long item, long long items) {
    return bytes / items * item + bytes % items * item / items;
  }
  extern "C" [[gnu::visibility("default")]]
  void baseline(const void* args, long long begin, long long end) {
    const auto [both, read, both_bytes, read_bytes, items] = *static_cast<const Args*>(args);
    for (long long item = begin; item < end; ++item) {
      const long long first = share(both_bytes, item, items), last = share(both_bytes, item + 1, items);
      for (long long i = first; i < last; ++i) both[i] ^= 1;
      unsigned char any = 0;
      for (long long i = share(read_bytes, item, items); i < share(read_bytes, item + 1, items); ++i) any |= read[i];
      if (last > first) both[first] ^= any & 2;
    }
  })";

// Mirrors `Args` of the baseline.
struct BaselineArgs {
  void* both;
  const void* read;
  std::int64_t both_bytes, read_bytes, items;
};

}  // namespace

HostDevice::HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock)
    : HostDevice(engine, limits, std::move(clock), thread_pool(limits.threads)) {}

HostDevice::HostDevice(jit::Engine& engine, const HostLimits& limits, Clock clock,
                       jit::ParallelFor loop)
    : ScratchDevice(engine, jit::host_hardware(limits.threads),
                    std::make_unique<jit::CpuBackend>(engine, loop),
                    {limits.scratch_bytes, limits.least_seconds}, std::move(clock)),
      parallel_for_(std::move(loop)) {
  engine.skip_baselines();
}

Model HostDevice::model(const Workload& workload) { return cpu_model(hardware(), workload.size()); }

void HostDevice::download(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

std::function<void()> HostDevice::make_baseline(const Workload& workload) {
  const MemoryTraffic moved = moved_by(workload);
  const auto kernel = engine().kernel(kBaseline, "baseline", jit::Target::cpu());
  const auto both = filled(moved.both), read = filled(moved.read);
  const BaselineArgs args = {
      both.get(), read.get(), moved.both, moved.read,
      std::max<std::int64_t>(1, workload.size().elements / kElementsPerItem)};
  return [this, kernel, both, read, args, entry = kernel->cpu("baseline")] {
    const auto part = [&](std::int64_t begin, std::int64_t end) { entry(&args, begin, end); };
    constexpr std::int64_t kGrain = 32768 / kElementsPerItem;  // the default grain of a step
    if (parallel_for_)
      parallel_for_(args.items, kGrain, part);
    else
      part(0, args.items);
  };
}

}  // namespace jitstep::tuning
