// Covering sets: option values that together reach every value of a rule's or codec's flags.
#pragma once

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/manifest.h"
#include "jitstep/jit/option_values.h"

#include <cstdint>
#include <vector>

namespace jitstep::emulation {

/// Options of a rule that differ from their defaults, and a parameter's number of dimensions or sizes. Flags may depend
/// on both.
struct RuleOptions {
  jit::NamedValues values = {};
  int dims = 2;
  std::vector<std::int64_t> sizes = {};  // `dims` sizes; empty: any
};

/// The flags of such a parameter with these values of the rule's options.
jit::NamedValues flags_of(const jit::OptionValues& values, const RuleOptions& options);
/// Throws an Error if the rule rejects such a parameter.
void validate(const jit::OptionValues& values, const RuleOptions& options);

/// A covering set of a rule. The defaults come first. The others give each flag each of its values, and make each
/// condition on flags true and false, as far as valid options for that are found. One more entry activates the gradient
/// options.
std::vector<RuleOptions> covering_set(const jit::Manifest& rule, const jit::Catalog& catalog);

/// Flag values that the covering set does not reach, but that may be reachable: "deep=true".
std::vector<std::string> unreached_flags(const jit::Manifest& rule, const jit::Catalog& catalog);

/// A covering set of a codec. The defaults (empty) come first. The others change one option at a time: each other value
/// of a flag, the smallest and largest value of a number, and values around the constants in conditions that read the
/// number.
std::vector<jit::NamedValues> covering_set(const jit::Manifest& codec);

}  // namespace jitstep::emulation
