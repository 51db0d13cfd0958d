// The numbers of a kernel: what it uses of a processor, and how fast memory lets it be.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subject.h"

namespace jitstep::tool::inspect {

/// Of a GPU: registers, memory, spills and occupancy of each entry. Of the CPU: instructions by the width of their
/// vectors, stack and size, read from the assembly and the object.
std::string resources_text(const Subject& subject);
nlohmann::json resources_json(const Subject& subject);

/// Bytes that each launch moves for a parameter, and the limits that follow on a GPU of the architecture.
std::string model_text(const Subject& subject);
nlohmann::json model_json(const Subject& subject);

}  // namespace jitstep::tool::inspect
