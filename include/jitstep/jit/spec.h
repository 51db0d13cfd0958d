// The spec of a kernel: rule, formats, flags and dtypes. It determines results, and has no launch configuration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

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

}  // namespace jitstep::jit
