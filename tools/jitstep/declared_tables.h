// What a file declares, as tables for people and as JSON for programs.
#pragma once

#include <jitstep/jit/manifest.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace jitstep::tool {

/// "rule", "codec" or "weight format".
std::string kind_name(jit::Manifest::Kind kind);

/// Name and description, then a table each of options, slots and memory, as far as there are some; an empty line after
/// each. `path`: what the file is called.
std::string declared_text(const jit::Manifest& manifest, const std::string& path);

/// The same as an object: kind, name, class, description, options, slots, memory.
nlohmann::json declared_json(const jit::Manifest& manifest);

}  // namespace jitstep::tool
