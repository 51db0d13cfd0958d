// Describes hardware by the properties that determine a kernel's speed.
#pragma once

#include <cstdint>
#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// A machine or GPU. The name is informational only: one product is sold with different numbers of multiprocessors, and
/// a virtual machine has only a part of its host.
struct JITSTEP_API Hardware {
  Target target = Target::cpu();
  std::string name;          // "AMD EPYC"
  std::string architecture;  // "x86-64 AuthenticAMD family 26 avx512", "sm_90"
  int units = 0;             // threads in use (CPU), or multiprocessors (GPU)
  int processors = 0;        // available to this program; 0: the same as `units`
  // Level-2 cache of one processor or of the whole GPU. 0: unknown.
  std::int64_t cache_bytes = 0;
  double bandwidth = 0;  // measured memory bandwidth in bytes/s; 0: not measured

  bool operator==(const Hardware&) const = default;
};

/// Whether both are the same machine, for any number of processors in use. The target, architecture, processors and
/// cache must be equal. If the bandwidth of both is known for the same number of processors in use, it must agree
/// within 25 %.
JITSTEP_API bool same_machine(const Hardware& one, const Hardware& other);

/// Whether measurements are comparable: the same machine with the same number of units in use.
JITSTEP_API bool same_hardware(const Hardware& one, const Hardware& other);

/// `units` in words: "4 threads" or "132 multiprocessors".
JITSTEP_API std::string units_text(const Hardware& hardware);

/// The host's processors. Queries the system once.
JITSTEP_API const Hardware& host_hardware();

/// The host with this number of threads in use.
JITSTEP_API Hardware host_hardware(int threads);

/// A GPU of an engine's driver. Throws an Error if there is no driver or no such GPU.
JITSTEP_API Hardware gpu_hardware(class Engine& engine, int device);

/// A GPU with this number of multiprocessors and this level-2 cache.
JITSTEP_API Hardware gpu_hardware(const Target& target, int multiprocessors,
                                  std::int64_t cache_bytes);

}  // namespace jitstep::jit
