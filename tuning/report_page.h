// The tuner's results as a self-contained HTML page, without network access and scripts.
#pragma once

#include <string>
#include <vector>

#include "tuning/tuner.h"

namespace jitstep::tuning {

/// HTML with a plot (inline SVG) per workload: each trial's time relative to the default's with its spread, the winner,
/// the runner-up, and the bandwidth bound. `moved_bytes`: bytes that a step moves, per workload.
std::string report_page(const std::vector<Tuned>& tuned, const std::vector<double>& moved_bytes);

}  // namespace jitstep::tuning
