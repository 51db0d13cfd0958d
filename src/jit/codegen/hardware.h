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
  int units = 0;             // processors in use, or multiprocessors
  int processors = 0;        // that this program may use, where fewer are in use; 0: those in use
  std::int64_t cache_bytes =
      0;                 // the level-2 cache: of a processor, or of the whole GPU; 0: not known
  double bandwidth = 0;  // of memory in bytes/s, as measured; 0: not measured

  bool operator==(const Hardware&) const = default;
};

/// Whether both are the same machine, however many of its processors were in use: the same architecture, processors and
/// cache, and a bandwidth that differs by no more than a quarter where it is known of as many in use.
JITSTEP_API bool same_machine(const Hardware& one, const Hardware& other);

/// Whether what was measured on one holds on the other: the same machine with as many units in use.
JITSTEP_API bool same_hardware(const Hardware& one, const Hardware& other);

/// The host's processors. Asks the processor and the system once.
JITSTEP_API const Hardware& host_hardware();

/// The host with so many of its processors in use.
JITSTEP_API Hardware host_hardware(int threads);

/// A GPU of so many multiprocessors.
JITSTEP_API Hardware gpu_hardware(const Target& target, int multiprocessors,
                                  std::int64_t cache_bytes);

}  // namespace jitstep::jit
