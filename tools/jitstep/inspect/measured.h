// What was measured of a kernel, by the records of tuning.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subject.h"

namespace jitstep::tool::inspect {

/// A row for each record on machines of the target's architecture: size, machine, the configuration that it names, times.
std::string records_text(const Subject& subject);

/// The records themselves.
nlohmann::json records_json(const Subject& subject);

}  // namespace jitstep::tool::inspect
