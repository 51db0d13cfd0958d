#include "jit/tuning/hardware.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "jit/base/lock_free_static.h"
#include "jit/base/parallel.h"
#include "jit/base/text.h"
#include "jit/engine/cuda_driver.h"
#include "jit/engine/engine_parts.h"
#include "jitstep/jit/engine.h"

namespace jitstep::jit {
namespace {

#if defined(__x86_64__)
const char* widest_vectors() {
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  return __builtin_cpu_supports("avx2") ? "avx2" : "sse";
}

// Vendor and family identify the design. Models of a family differ in clock rates and caches.
std::string host_architecture() {
  unsigned a = 0, words[3] = {}, rest = 0;
  __get_cpuid(0, &a, &words[0], &words[2], &words[1]);
  char vendor[13] = {};
  std::memcpy(vendor, words, sizeof words);
  __get_cpuid(1, &a, &words[0], &words[1], &rest);
  const unsigned base = (a >> 8) & 0xf;
  const unsigned family = base == 0xf ? base + ((a >> 20) & 0xff) : base;
  return str_cat("x86-64 ", vendor, " family ", family, " ", widest_vectors());
}
#else
std::string host_architecture() { return "aarch64"; }
#endif

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != line.npos) return line.substr(colon + 2);
  return "unknown processor";
}

int processors_of(const Hardware& hardware) {
  return hardware.processors > 0 ? hardware.processors : hardware.units;
}

std::unique_ptr<const Hardware> measured_host() {
  return std::make_unique<const Hardware>(
      Hardware{.target = Target::cpu(),
               .name = processor_name(),
               .architecture = host_architecture(),
               .units = usable_processors(),
               .cache_bytes = std::max(0L, ::sysconf(_SC_LEVEL2_CACHE_SIZE))});
}

}  // namespace

bool same_machine(const Hardware& one, const Hardware& other) {
  const bool known = one.bandwidth > 0 && other.bandwidth > 0 && one.units == other.units;
  const double ratio = known ? one.bandwidth / other.bandwidth : 1;
  return one.target == other.target && one.architecture == other.architecture &&
         processors_of(one) == processors_of(other) && one.cache_bytes == other.cache_bytes &&
         ratio >= 0.75 && ratio <= 1 / 0.75;
}

std::string units_text(const Hardware& hardware) {
  const bool one = hardware.units == 1, cpu = hardware.target.kind == Target::Kind::cpu;
  return str_cat(hardware.units, cpu ? " thread" : " multiprocessor", one ? "" : "s");
}

bool same_hardware(const Hardware& one, const Hardware& other) {
  return same_machine(one, other) && one.units == other.units;
}

const Hardware& host_hardware() { return lock_free_static<measured_host>(); }

Hardware host_hardware(int threads) {
  Hardware host = host_hardware();
  if (threads != host.units) host.processors = std::exchange(host.units, threads);
  return host;
}

Hardware gpu_hardware(Engine& engine, int device) {
  const CudaDevice gpu = driver_of(engine).device(device);
  return gpu_hardware(Target::cuda(gpu.sm), gpu.multiprocessors, gpu.l2_bytes);
}

Hardware gpu_hardware(const Target& target, int multiprocessors, std::int64_t cache_bytes) {
  return {.target = target,
          .name = str_cat("GPU with ", multiprocessors, " multiprocessors"),
          .architecture = to_string(target),
          .units = multiprocessors,
          .cache_bytes = cache_bytes};
}

}  // namespace jitstep::jit
