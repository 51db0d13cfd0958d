#include "tuning/host_device.h"

#include <algorithm>
#include <cstring>

namespace jitstep::tuning {
namespace {

constexpr std::int64_t kElementsOfAnItem = 4096;

// Bytes that are read and written, and bytes that are read, in equal parts for each item.
constexpr const char* kWalk = R"(
  struct Args { unsigned char* both; const unsigned char* read; long long both_bytes, read_bytes, items; };
  extern "C" [[gnu::visibility("default")]]
  void walk(const void* args, long long begin, long long end) {
    const auto [both, read, both_bytes, read_bytes, items] = *static_cast<const Args*>(args);
    for (long long item = begin; item < end; ++item) {
      const long long first = both_bytes * item / items, last = both_bytes * (item + 1) / items;
      for (long long i = first; i < last; ++i) both[i] ^= 1;
      unsigned char any = 0;
      for (long long i = read_bytes * item / items; i < read_bytes * (item + 1) / items; ++i) any |= read[i];
      if (last > first) both[first] ^= any & 2;
    }
  })";

// As the walk takes them.
struct WalkArgs {
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

std::function<void()> HostDevice::make_walk(const Workload& workload) {
  const MemoryTraffic moved = moved_by(workload);
  const auto kernel = engine().kernel(kWalk, "walk", jit::Target::cpu());
  const auto both = filled(moved.both), read = filled(moved.read);
  const WalkArgs args = {both.get(), read.get(), moved.both, moved.read,
                         std::max<std::int64_t>(1, workload.size().elements / kElementsOfAnItem)};
  return [this, kernel, both, read, args, entry = kernel->cpu("walk")] {
    const auto part = [&](std::int64_t begin, std::int64_t end) { entry(&args, begin, end); };
    constexpr std::int64_t kGrain = 32768 / kElementsOfAnItem;  // as that of a step by default
    if (parallel_for_)
      parallel_for_(args.items, kGrain, part);
    else
      part(0, args.items);
  };
}

}  // namespace jitstep::tuning
