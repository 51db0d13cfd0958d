// The kernels whose cost the catalogue shows.
#pragma once

#include <emulation/option_cover.h>
#include <jitstep/jit/catalog.h>
#include <jitstep/jit/option_values.h>
#include <jitstep/jit/plan.h>

#include <string>
#include <vector>

namespace jitstep::tool::catalogue {

/// The codecs in the order of columns: fp32 first, then by name.
std::vector<std::string> codecs(const jit::Catalog& catalog);

/// A rule's options with these values.
jit::OptionValues options_of(const std::string& rule, const jit::NamedValues& values);

/// What an optimizer steps a float32 parameter of 1024 x 1024 (or as many elements in another number of
/// dimensions) with when it was told to keep its state in this codec.
jit::Plan chosen_kernel(const jit::OptionValues& options, int dims, const std::string& codec);

/// Launches, then bytes per parameter with each codec: cells of a table.
std::vector<std::string> cost(const std::string& rule, const emulation::RuleOptions& options,
                              const jit::Catalog& catalog);

}  // namespace jitstep::tool::catalogue
