// The parts of a kernel's cache key, and why each part is in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subject.h"

namespace jitstep::tool::inspect {

/// A part of the key. Every part can change the binary.
struct KeyPart {
  std::string part;   // "text", "rules/adamw.cuh", "flag amsgrad", ...
  std::string value;  // digests are cut to 12 hexadecimal digits
  std::string because;
};

/// The key, its parts, and the cache entry with this key.
struct KeyReport {
  std::string key;                 // sha256, the name of the cache file
  std::string found;               // the cache file, or "not in the cache"
  std::vector<KeyPart> parts;      // of the key itself
  std::vector<KeyPart> constants;  // in the translation unit
  std::vector<KeyPart> templates;  // that the translation unit includes
};

/// Needs the compiler of the target for its identity. Throws an Error if there is none.
KeyReport key_report(const Subject& subject);

std::string to_text(const KeyReport& report);
nlohmann::json to_json(const KeyReport& report);

}  // namespace jitstep::tool::inspect
