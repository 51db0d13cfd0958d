// The declarations of a file, as text tables and as JSON.
#pragma once

#include <jitstep/jit/manifest.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace jitstep::tool {

/// "rule", "codec" or "weight format".
std::string kind_name(jit::Manifest::Kind kind);

/// Name and description, then tables of options, slots and auxiliary state, each followed by an empty line. Empty
/// tables are left out. `path` is printed as the file's name.
std::string declared_text(const jit::Manifest& manifest, const std::string& path);

/// The same as an object with kind, name, class, description, options, slots and memory (the auxiliary state).
nlohmann::json declared_json(const jit::Manifest& manifest);

}  // namespace jitstep::tool
