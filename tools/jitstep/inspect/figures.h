// The figures of a kernel: its resources, and its bandwidth bound.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subject.h"

namespace jitstep::tool::inspect {

/// For a GPU: registers, memory, spills and occupancy of each entry. For the CPU: instructions by vector width and
/// stack bytes, both counted in the assembly, and loops that are not vectorized.
std::string resources_text(const Subject& subject);
nlohmann::json resources_json(const Subject& subject);

/// Bytes per parameter that each launch reads and writes. For GPU targets, also the bandwidth bound that follows.
std::string model_text(const Subject& subject);
nlohmann::json model_json(const Subject& subject);

}  // namespace jitstep::tool::inspect
