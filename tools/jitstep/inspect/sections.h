// What `jitstep inspect` shows of a kernel.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subject.h"

namespace jitstep::tool::inspect {

/// What --show takes, in the order of its help: "source", "flat", "ptx", "sass", "asm", "log", "resources", "model",
/// "records", "key".
std::vector<std::string> section_names();

/// A section as text. An Error if it cannot be made: for another kind of target, or where a program is missing.
std::string section_text(const std::string& name, const Subject& subject);

/// The same for programs: an object of numbers for resources, model, records and key, else the text.
nlohmann::json section_json(const std::string& name, const Subject& subject);

/// A config, with the names that --config takes.
nlohmann::json config_json(const jit::KernelConfig& config);

/// Name, target, config and the reason for it, in lines.
std::string heading(const Subject& subject);

}  // namespace jitstep::tool::inspect
