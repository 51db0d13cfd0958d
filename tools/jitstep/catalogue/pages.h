// The chapters of the catalogue, each made from the manifests alone, as Markdown with an empty line after
// it.
#pragma once

#include <jitstep/jit/catalog.h>

#include <string>

namespace jitstep::tool::catalogue {

/// A line for each rule: its class, what it keeps with each codec, launches.
std::string index(const jit::Catalog& catalog);

/// The options that every rule has.
std::string common_options(const jit::Catalog& catalog);

/// Codecs and weight formats.
std::string formats(const jit::Catalog& catalog);

/// What does not go together, and what a parameter gets instead. Walks the product of rules, values of
/// their flags, codecs, weight formats and dtypes.
std::string refusals(const jit::Catalog& catalog);

/// A section for each rule.
std::string rules(const jit::Catalog& catalog);

}  // namespace jitstep::tool::catalogue
