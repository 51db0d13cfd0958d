// What a tuner found, as one page that needs nothing else: no network, no script.
#pragma once

#include <string>
#include <vector>

#include "tuning/tuner.h"

namespace jitstep::tuning {

/// HTML with a plot (inline SVG) for each workload: every trial's ratio to the default's time and its spread, winner
/// and runner-up, and the limit that memory's bandwidth sets. `moved_bytes`: of a step of each workload.
std::string report_page(const std::vector<Tuned>& tuned, const std::vector<double>& moved_bytes);

}  // namespace jitstep::tuning
