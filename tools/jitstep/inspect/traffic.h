// What the launches of a kernel move to and from memory, and the speed that this allows at most.
#pragma once

#include <string>
#include <vector>

#include "gpu_model.h"
#include "subject.h"

namespace jitstep::tool::inspect {

/// Bytes for each parameter of a matrix of 1024 x 1024.
struct Traffic {
  std::string entry;  // of the binary
  double read = 0, written = 0;

  double all() const { return read + written; }
};

/// Of each launch of a step that walks over all elements or entries, in their order; "at most": sums over elements are
/// taken to read all that a step reads, unless they are of the gradient alone. Those over the entries of another
/// reduction read its results.
std::vector<Traffic> traffic(const Subject& subject);

/// How fast a step is at most on a GPU.
struct Limit {
  double bytes = 0;            // for each parameter and step
  double giga_parameters = 0;  // a second, at the memory's bandwidth
  double in_flight = 0;        // bytes on their way to one multiprocessor, of the last launch
  double needed = 0;           // that hide the memory's latency
};

/// By the memory's bandwidth in GB/s, and by what is on its way in a launch of this occupancy.
Limit limit(const Subject& subject, const GpuModel& gpu, const Occupancy& occupancy);

}  // namespace jitstep::tool::inspect
