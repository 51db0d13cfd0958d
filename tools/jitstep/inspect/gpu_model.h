// Data of GPUs, for occupancy and the bandwidth bound.
#pragma once

#include <jitstep/jit/compiler.h>

#include <string>

namespace jitstep::tool::inspect {

/// One GPU of each architecture. `threads` and the members after it are limits of one multiprocessor, from the CUDA C++
/// Programming Guide, "Technical Specifications per Compute Capability". Bandwidth, clock and number of multiprocessors
/// are from the vendors' data sheets.
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

/// The newest model that is not newer than the architecture. The oldest model if all are newer.
const GpuModel& gpu_model(int sm);

/// How many blocks of an entry fit on one multiprocessor, and the resource that limits them.
struct Occupancy {
  int blocks = 0;
  int warps = 0;
  double fraction = 0;  // of the multiprocessor's maximum of threads
  std::string limit;    // "registers", "threads", "blocks" or "shared memory"
};

Occupancy occupancy(const GpuModel& gpu, const jit::Resources& entry, int threads);

}  // namespace jitstep::tool::inspect
