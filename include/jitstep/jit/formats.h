// How an optimizer keeps state and weights: what is common to the options of all rules. Knows no
// rule's numbers and no torch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Formats as a user chose them; what is not set comes from the optimizer's defaults, then from the
/// rule's manifest, then from the library (state fp32, weights native).
struct JITSTEP_API Formats {
  std::optional<CodecChoice> state = {};  // of slots not named below, nor kept by `codec: CODEC`
  std::map<std::string, CodecChoice> slots = {};  // by the slot's name or torch's name of it
  std::optional<std::string> weights = {};
  std::optional<std::uint64_t> seed = {};               // 0 unless set
  std::optional<std::int64_t> min_quantized_size = {};  // the manifest's, else 4096, unless set

  /// Takes over what is not set here. A codec for all slots set here hides the defaults' slots, but
  /// those that the rule keeps in a codec of their own: it is not theirs.
  void inherit(const Formats& defaults, const Manifest& rule);

  bool operator==(const Formats&) const = default;
};

/// What is wrong with the formats for the rule of these options, whatever the parameters: unknown codecs,
/// slots, weight formats and codec options throw an Error that lists what there is.
JITSTEP_API void check_formats(const Formats& formats, const OptionValues& values);

/// A parameter as far as formats depend on it.
struct ParameterKind {
  Dtype dtype = Dtype::float32;
  int dims = 1;
  std::int64_t elements = 0;
  /// Of the dimensions; none where they are not known, which counts as long.
  std::vector<std::int64_t> sizes = {};
};

/// The kernel of a parameter with gradients of its own dtype: an Error says
/// what does not go together. A format that is not for the parameter falls back: state to fp32 for
/// float64 (whose state is float64 then) and, in block-scaled codecs, for small parameters; a codec with
/// something for each row and column to the one that it names for vectors, of these and, unless min_quantized_size is 0,
/// where fp32 would take less; weights to native for a dtype that the format does not list.
JITSTEP_API Plan resolve(const OptionValues& values, const Formats& formats,
                         const ParameterKind& parameter);

}  // namespace jitstep::jit
