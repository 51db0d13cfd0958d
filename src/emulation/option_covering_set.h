// Values of options that reach every constant of a rule's or codec's kernels.
#pragma once

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/manifest.h"

#include <vector>

namespace jitstep::emulation {

/// Options of a rule that differ from their defaults, and the number of dimensions they are meant for,
/// as a flag may depend on it.
struct RuleOptions {
  jit::NamedValues values = {};
  int dims = 2;
};

/// The defaults first; then, as far as such options are found and not refused, so many that every flag
/// of the rule has each of its values and every condition on flags holds and fails, and once those of the gradient's
/// numbers that switch something on.
std::vector<RuleOptions> cover(const jit::Manifest& rule, const jit::Catalog& catalog);

/// The values of flags that no options of the cover have, though some may: "deep=true".
std::vector<std::string> unreached_flags(const jit::Manifest& rule, const jit::Catalog& catalog);

/// The defaults (nothing) first; then one option at a time: each other value of a flag, the smallest and
/// the largest number, and where conditions read it those around the numbers that they compare with.
std::vector<jit::NamedValues> cover(const jit::Manifest& codec);

}  // namespace jitstep::emulation
