// What a kernel computes: rule, formats, flags, dtypes. Never how it is run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

class OptionValues;

/// A codec with its options; those left out have their defaults.
struct JITSTEP_API CodecChoice {
  std::string name;
  NamedValues options = {};

  bool operator==(const CodecChoice&) const = default;
};

/// "int8(block=128, positive_floor=true)".
JITSTEP_API std::string to_string(const CodecChoice& choice);

/// The choice with every option given and checked. An Error names what is wrong.
JITSTEP_API CodecChoice complete(const CodecChoice& choice,
                                 const Catalog& catalog = default_catalog());

/// Elements that share a scale; 1 without blocks.
JITSTEP_API int block_of(const CodecChoice& choice, const Catalog& catalog = default_catalog());

/// Everything that decides a kernel's results, but its arguments.
struct JITSTEP_API KernelSpec {
  std::string rule;
  NamedValues flags = {};                              // of the rule, lifted ones included
  NamedValues gradient_flags = {};                     // of the options common to all rules
  std::vector<std::optional<CodecChoice>> slots = {};  // one for each of the rule, none if left out
  std::string weights = "native";
  Dtype parameter = Dtype::float32;
  Dtype gradient = Dtype::float32;
  bool strided = false;  // some parameter or gradient is not dense

  bool operator==(const KernelSpec&) const = default;
};

/// The kernel of float32 arrays under these options, every slot in one codec; completed. Throws an
/// Error, one sentence, if the options or the codec will not do.
JITSTEP_API KernelSpec kernel_spec(const OptionValues& options,
                                   const CodecChoice& state = {.name = "fp32"},
                                   const Catalog& catalog = default_catalog());

/// One line with everything that was given, for messages and logs.
JITSTEP_API std::string to_string(const KernelSpec& spec);

/// Whether a slot exists under these flags of its rule.
JITSTEP_API bool is_stored(const Slot& slot, const NamedValues& flags);

/// The spec with every flag and codec option given; two specs of the same kernel become equal.
/// Checks everything (names, types, dtypes, slots, limits) and throws an Error with one sentence.
JITSTEP_API KernelSpec complete(const KernelSpec& spec, const Catalog& catalog = default_catalog());

}  // namespace jitstep::jit
