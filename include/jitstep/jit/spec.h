// The spec of a kernel: rule, formats, flags and dtypes. It determines results, and has no launch configuration. The
// formats that users choose.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

class OptionValues;

/// A codec with its options. Missing options have their defaults.
struct JITSTEP_API CodecChoice {
  std::string name;
  NamedValues options = {};

  bool operator==(const CodecChoice&) const = default;
};

/// "int8(block=128, positive_floor=true)".
JITSTEP_API std::string to_string(const CodecChoice& choice);

/// The choice with all options completed and checked. `rule` is the rule of the slot, if known: its file may set
/// options, and a number of the codec may have the name of one of the rule's options. Throws an Error for an invalid
/// option.
JITSTEP_API CodecChoice complete(const CodecChoice& choice,
                                 const Catalog& catalog = default_catalog(),
                                 const Manifest* rule = nullptr);

/// True if codes of one choice are valid for the other. Differences in numbers do not matter, because their effect is
/// in the codec's auxiliary state.
JITSTEP_API bool same_codes(const CodecChoice& a, const CodecChoice& b,
                            const Catalog& catalog = default_catalog());

/// The format of a parameter and its state between steps. Equal complete formats store the same bytes for the same
/// values.
struct JITSTEP_API StateFormat {
  std::vector<std::optional<CodecChoice>> slots = {};  // one per slot, none if not stored
  std::string weights = "native";
  Dtype dtype = Dtype::float32;  // of the parameter; sets that of arithmetic and fp32 state

  bool operator==(const StateFormat&) const = default;
};

/// A requested kernel: everything that determines its results, except its arguments. Missing values have their
/// defaults. resolve() in plan.h completes and checks it.
struct JITSTEP_API KernelSpec {
  std::string rule;
  NamedValues flags = {};           // of the rule, including lifted ones
  NamedValues gradient_flags = {};  // of the options common to all rules
  StateFormat state = {};
  Dtype gradient = Dtype::float32;
  bool strided = false;  // some parameter or gradient is not dense

  bool operator==(const KernelSpec&) const = default;
};

/// One line with everything that was set, for messages and logs.
JITSTEP_API std::string to_string(const KernelSpec& spec);

/// True if the slot exists under these flags of its rule.
JITSTEP_API bool is_stored(const Slot& slot, const NamedValues& flags);

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

}  // namespace jitstep::jit
