// The tuning records of a kernel.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subject.h"

namespace jitstep::tool::inspect {

/// A row for each record of the target's architecture: size, time, gain, config, machine and date.
std::string records_text(const Subject& subject);

/// The records as they are stored.
nlohmann::json records_json(const Subject& subject);

}  // namespace jitstep::tool::inspect
