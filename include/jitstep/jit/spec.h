// What a kernel computes: rule, formats, flags, dtypes. Never how it is run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// A codec with its options; those left out have their defaults.
struct JITSTEP_API CodecChoice {
  std::string name;
  NamedValues options = {};

  bool operator==(const CodecChoice&) const = default;
};

/// "int8(block=128, positive_floor=true)".
JITSTEP_API std::string to_string(const CodecChoice& choice);

/// The choice with every option given and checked, by the rule whose slot it is for where that is known: its file may
/// say some, and a number of the codec may be given by the name of one of the rule's. An Error names what is wrong.
JITSTEP_API CodecChoice complete(const CodecChoice& choice,
                                 const Catalog& catalog = default_catalog(),
                                 int catalog_revision = 0, const Manifest* rule = nullptr);

/// Whether codes that were made under one choice mean the same under the other: what a codec's numbers decide is in its
/// memory.
JITSTEP_API bool same_codes(const CodecChoice& a, const CodecChoice& b,
                            const Catalog& catalog = default_catalog(), int catalog_revision = 0);

/// How a parameter and its state are kept between steps. Two that are equal, once complete, keep the
/// same bytes for the same values.
struct JITSTEP_API StateFormat {
  std::vector<std::optional<CodecChoice>> slots = {};  // one for each of the rule, none if left out
  std::string weights = "native";
  Dtype dtype = Dtype::float32;  // the parameter's; the arithmetic and plain state follow it

  bool operator==(const StateFormat&) const = default;
};

/// A kernel as it is asked for: everything that decides its results, but its arguments. What is left
/// out has its default; plan.h's resolve() completes and checks it.
struct JITSTEP_API KernelSpec {
  std::string rule;
  NamedValues flags = {};           // of the rule, lifted ones included
  NamedValues gradient_flags = {};  // of the options common to all rules
  StateFormat state = {};
  Dtype gradient = Dtype::float32;
  bool strided = false;  // some parameter or gradient is not dense
  int catalog_revision =
      0;  // of the catalog, in which rule and codecs are meant; 0: as they are now

  bool operator==(const KernelSpec&) const = default;
};

/// One line with everything that was given, for messages and logs.
JITSTEP_API std::string to_string(const KernelSpec& spec);

/// Whether a slot exists under these flags of its rule.
JITSTEP_API bool is_stored(const Slot& slot, const NamedValues& flags);

}  // namespace jitstep::jit
