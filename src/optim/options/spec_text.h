// An optimizer as JSON text: {"rule": "adamw", "options": {"lr": 1e-3}, "state": "int8"}.
#pragma once

#include <string>

#include "jitstep/options.h"

namespace jitstep {

/// What a text says: a rule that exists and options whose formats are set. The names and types of
/// the options are checked when they are bound to the rule.
struct SpecText {
  std::string rule;
  GenericOptions options;
};

/// Reads {"rule", "options", "state", "weights", "seed", "min_quantized_size"}; all but the rule
/// may be left out. A c10::Error names what is unknown or of the wrong type and lists what there
/// is.
SpecText parse_spec(const std::string& json_text);

}  // namespace jitstep
