// The key of a kernel in the cache, in clear, and why each part of it is there.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subject.h"

namespace jitstep::tool::inspect {

/// A part of what decides a binary's bits.
struct KeyPart {
  std::string part;   // "text", "rules/adamw.cuh", "rule flag amsgrad", ...
  std::string value;  // digests are cut to 12 letters
  std::string because;
};

/// The key and where it is found.
struct KeyReport {
  std::string key;                 // sha256: the name of the cache's file
  std::string found;               // the file, or why there is none
  std::vector<KeyPart> parts;      // of the key itself
  std::vector<KeyPart> constants;  // in the unit's own text
  std::vector<KeyPart> templates;  // that it includes
};

/// Needs the compiler, which says what it is.
KeyReport key_report(const Subject& subject);

std::string to_text(const KeyReport& report);
nlohmann::json to_json(const KeyReport& report);

}  // namespace jitstep::tool::inspect
