// Lists of kernel reports.
#pragma once

#include <vector>

#include "jitstep/reports.h"

namespace jitstep {

/// Adds a report. If there is a report of the same kernel and device, adds only the parameters to that.
void add_kernel(std::vector<KernelReport>& reports, KernelReport one);

}  // namespace jitstep
