// Rule, options and formats as JSON text: {"rule": "adamw", "options": {"lr": 1e-3}, "state": "int8"}.
#pragma once

#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/formats.h"

namespace jitstep::jit {

/// What a text says: a rule that exists, values for options of it and formats. The names and types
/// of the options are checked by OptionValues, the formats by check_formats.
struct SpecText {
  std::string rule;
  NamedValues options;
  Formats formats;
};

/// Reads {"rule", "options", "state", "weights", "seed", "min_quantized_size"}; all but the rule
/// may be left out. An Error names what is unknown or of the wrong type and lists what there is.
JITSTEP_API SpecText parse_spec(const std::string& json_text);

/// A codec's name, or a JSON object: {"codec": "int8", "block": 128}. An Error if it is neither.
/// Whether there is such a codec is checked where it is used.
JITSTEP_API CodecChoice parse_codec(const std::string& text);
/// A codec as JSON text, for archives; parse_codec reads it.
JITSTEP_API std::string to_json(const CodecChoice& codec);

/// Formats as one JSON text and back, for archives.
JITSTEP_API std::string to_json(const Formats& formats);
JITSTEP_API Formats formats_from_json(const std::string& text);

}  // namespace jitstep::jit
