// The memory traffic of a kernel's launches, and the bandwidth bound that follows.
#pragma once

#include <string>
#include <vector>

#include "gpu_model.h"
#include "subject.h"

namespace jitstep::tool::inspect {

/// Bytes per parameter of a 1024 x 1024 matrix.
struct Traffic {
  std::string entry;  // name of the entry in the binary
  double read = 0, written = 0;

  double all() const { return read + written; }
};

/// The traffic of each launch of a step that loops over all elements or entries, in launch order. These are upper
/// bounds: reductions over elements are assumed to read everything that a step reads, unless they use the gradient
/// only. Reductions over the entries of another reduction read its results.
std::vector<Traffic> traffic(const Subject& subject);

/// Upper bounds of a step on a GPU.
struct Limit {
  double bytes = 0;            // per parameter and step
  double giga_parameters = 0;  // 1e9 parameters per second, at full memory bandwidth
  double in_flight = 0;        // bytes in flight to one multiprocessor, in the last launch
  double needed = 0;           // bytes in flight that hide the memory latency
};

/// Computes the bounds from the memory bandwidth, and the bytes in flight from the occupancy of the last launch.
Limit limit(const Subject& subject, const GpuModel& gpu, const Occupancy& occupancy);

}  // namespace jitstep::tool::inspect
