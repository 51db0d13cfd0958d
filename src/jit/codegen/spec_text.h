// Rule, options and formats as JSON text: {"rule": "adamw", "options": {"lr": 1e-3}, "state": "int8"}.
#pragma once

#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// A parsed spec. The rule exists. OptionValues checks the names and types of the options, check_formats() checks the
/// formats.
struct SpecText {
  std::string rule;
  NamedValues options;
  Formats formats;
};

/// Reads an object with the keys rule, options, state, weights, seed and min_quantized_size. Only the rule is required.
/// Throws an Error that names an unknown key or a value of the wrong type, and lists the valid ones.
JITSTEP_API SpecText parse_spec(const std::string& json_text);

/// A codec's name, or a JSON object: {"codec": "int8", "block": 128}. Throws an Error if it is neither.
/// Does not check that the codec exists.
JITSTEP_API CodecChoice parse_codec(const std::string& text);
/// A codec as JSON text, for checkpoints. parse_codec() reads it.
JITSTEP_API std::string to_json(const CodecChoice& codec);

/// Converts formats to JSON text and back, for checkpoints.
JITSTEP_API std::string to_json(const Formats& formats);
JITSTEP_API Formats formats_from_json(const std::string& text);

}  // namespace jitstep::jit
