// How an optimizer keeps state and weights: what is common to the options of all rules. Knows no
// rule's numbers and no torch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/spec.h"

namespace jitstep {

/// Formats as a user chose them; what is not set comes from the optimizer's defaults, then from the
/// rule's manifest, then from the library (state fp32, weights native).
struct JITSTEP_API Formats {
  std::optional<jit::CodecChoice> state;          // of slots not named below
  std::map<std::string, jit::CodecChoice> slots;  // by the slot's name or torch's name of it
  std::optional<std::string> weights;
  std::optional<std::uint64_t> seed;               // 0 unless set
  std::optional<std::int64_t> min_quantized_size;  // the manifest's, else 4096, unless set

  /// Takes over what is not set here. A codec for all slots set here hides the defaults' slots.
  void inherit(const Formats& defaults);

  bool operator==(const Formats&) const = default;
};

/// A codec's name, or a JSON object: {"codec": "int8", "block": 128}. A c10::Error if it is
/// neither. Whether there is such a codec is checked when an optimizer is made.
JITSTEP_API jit::CodecChoice parse_codec(const std::string& text);

/// The formats as one JSON text and back, for archives.
JITSTEP_API std::string to_json(const Formats& formats);
JITSTEP_API Formats formats_from_json(const std::string& text);

/// A codec as JSON text, for archives; parse_codec reads it.
JITSTEP_API std::string to_json(const jit::CodecChoice& codec);

/// What is wrong with the formats for this rule, whatever the parameters: unknown codecs, slots,
/// weight formats and codec options throw a jit::Error that lists what there is.
JITSTEP_API void check_formats(const Formats& formats, const jit::Manifest& rule);

/// A parameter as far as formats depend on it.
struct ParameterKind {
  jit::Dtype dtype = jit::Dtype::float32;
  int dims = 1;
  std::int64_t elements = 0;
};

/// The kernel of a parameter with gradients of its own dtype, completed and checked: a jit::Error
/// says what does not go together.
JITSTEP_API jit::KernelSpec kernel_spec(const jit::OptionValues& values, const Formats& formats,
                                        const ParameterKind& parameter);

}  // namespace jitstep
