// The sections that `jitstep inspect` prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subject.h"

namespace jitstep::tool::inspect {

/// The values of --show, in the order of its help: "source", "flat", "ptx", "sass", "asm", "log", "resources", "model",
/// "records", "key".
std::vector<std::string> section_names();

/// A section as text. Throws an Error if the section is for another kind of target, or if a program is missing.
std::string section_text(const std::string& name, const Subject& subject);

/// A section as JSON: structured data for resources, model, records and key, else the text as a string.
nlohmann::json section_json(const std::string& name, const Subject& subject);

/// A config, with the names that --config takes.
nlohmann::json config_json(const jit::KernelConfig& config);

/// Name, target, config and the reason for the config, one per line.
std::string heading(const Subject& subject);

}  // namespace jitstep::tool::inspect
