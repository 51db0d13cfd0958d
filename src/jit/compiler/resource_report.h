// Registers, spills and memory from the log that --ptxas-options=-v gives: needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/compiler.h"

namespace jitstep::jit {

/// One Resources per entry in the log, sorted by entry. What a function that was not inlined uses
/// counts for the entry it was compiled with.
std::vector<Resources> parse_resources(const std::string& log);

}  // namespace jitstep::jit
