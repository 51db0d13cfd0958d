// Registers, spills and memory from the log of --ptxas-options=-v. Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/compiler.h"

namespace jitstep::jit {

/// One Resources per entry in the log, sorted by entry. Resources of functions that were not inlined are added to the
/// entry that they were compiled with.
std::vector<Resources> parse_resources(const std::string& log);

}  // namespace jitstep::jit
