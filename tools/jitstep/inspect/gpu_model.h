// What a GPU of an architecture has, as far as it says how many blocks run at a time and how fast memory is.
#pragma once

#include <jitstep/jit/compiler.h>

#include <string>

namespace jitstep::tool::inspect {

/// One GPU of each architecture, with what a multiprocessor of it has. Limits: CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability"; bandwidth, clock and multiprocessors: the makers' data sheets.
struct GpuModel {
  int sm = 0;
  const char* name = "";
  int multiprocessors = 0;
  double clock_ghz = 0;
  double gigabytes_per_second = 0;  // of its memory
  int threads = 0;
  int blocks = 0;
  int shared_bytes = 0;
  int registers = 65536;
};

/// The newest one that is not newer than the architecture; the oldest for what is older than all.
const GpuModel& gpu_model(int sm);

/// How many blocks of an entry one multiprocessor holds, and why no more.
struct Occupancy {
  int blocks = 0;
  int warps = 0;
  double fraction = 0;  // of the threads it can hold
  std::string limit;    // "registers", "threads", "blocks" or "shared memory"
};

Occupancy occupancy(const GpuModel& gpu, const jit::Resources& entry, int threads);

}  // namespace jitstep::tool::inspect
