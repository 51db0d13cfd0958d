// Formats of state and weights, as options that all rules have in common. Knows neither the rules' numbers nor torch.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// Formats that a user has chosen. Unset members come from the optimizer's defaults, then from the rule's manifest,
/// then from the library (state fp32, weights native).
struct JITSTEP_API Formats {
  std::optional<CodecChoice> state = {};  // of slots without an entry below or in the rule's file
  std::map<std::string, CodecChoice> slots = {};  // by the slot's name or torch's name
  std::optional<std::string> weights = {};
  std::optional<std::uint64_t> seed = {};               // default: 0
  std::optional<std::int64_t> min_quantized_size = {};  // default: the manifest's, else 4096

  /// Copies members that are not set here from `defaults`. A codec for all slots that is set here hides the slots of
  /// `defaults`, except slots for which the rule's file declares a codec.
  void inherit(const Formats& defaults, const Manifest& rule);

  bool operator==(const Formats&) const = default;
};

/// Checks formats against the rule of these options, independent of parameters. An unknown codec, slot, weight format
/// or codec option throws an Error that lists the known ones.
JITSTEP_API void check_formats(const Formats& formats, const OptionValues& values);

/// The properties of a parameter that formats depend on.
struct ParameterKind {
  Dtype dtype = Dtype::float32;
  int dims = 1;
  std::int64_t elements = 0;
  /// One size per dimension. Empty if the sizes are unknown, which counts as large.
  std::vector<std::int64_t> sizes = {};

  auto operator<=>(const ParameterKind&) const = default;
};

/// The kernel of a parameter whose gradient has the same dtype. Throws an Error for formats that cannot be combined. A
/// format that does not support the parameter is replaced:
/// - State of float64 parameters is fp32, which is float64 then.
/// - State of small parameters is fp32 instead of a block-scaled codec.
/// - A codec with values per row and column names another codec. Vectors use that one. So do tensors whose fp32 state
///   would be smaller, unless min_quantized_size is 0.
/// - Weights are native if the weight format does not list the dtype.
JITSTEP_API Plan resolve(const OptionValues& values, const Formats& formats,
                         const ParameterKind& parameter);

}  // namespace jitstep::jit
