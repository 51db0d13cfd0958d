// What decides how fast a kernel runs on a machine, beside the kernel.
#pragma once

#include <cstdint>
#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// A machine by what it is. Its name is for readers and decides nothing: one product is sold with several numbers of
/// multiprocessors, and virtual machines have parts of others.
struct JITSTEP_API Hardware {
  Target target = Target::cpu();
  std::string name;          // "AMD EPYC"
  std::string architecture;  // "x86-64 AuthenticAMD family 26 avx512", "sm_90"
  int units = 0;             // processors that this program may use, or multiprocessors
  std::int64_t cache_bytes =
      0;                 // the level-2 cache: of a processor, or of the whole GPU; 0: not known
  double bandwidth = 0;  // of memory in bytes/s, as measured; 0: not measured

  bool operator==(const Hardware&) const = default;
};

/// Whether what was measured on one holds on the other: the same architecture, units and cache, and a bandwidth
/// that differs by no more than a quarter where both are known.
JITSTEP_API bool same_hardware(const Hardware& one, const Hardware& other);

/// The host's processors. Asks the processor and the system once.
JITSTEP_API const Hardware& host_hardware();

/// A GPU of so many multiprocessors.
JITSTEP_API Hardware gpu_hardware(const Target& target, int multiprocessors,
                                  std::int64_t cache_bytes);

}  // namespace jitstep::jit
