// One line of a manifest's structures at a time: declaration and notes. Internal to the reader.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// What an expression of a file may name.
using Symbols = std::map<std::string, Symbol, std::less<>>;
using Enumerations = std::map<std::string, std::vector<std::string>, std::less<>>;

/// A condition of a file; an Error names the place.
Expression read_condition(std::string_view text, const Symbols& symbols, const Place& location);

/// A field of Hyper.
Option read_number(const SourceLine& line);

/// A field of Flags or, with `integers`, of a codec's Options. `symbols` is what a lifted flag may
/// be computed from.
Option read_flag(const SourceLine& line, const Enumerations& enums, const Symbols& symbols,
                 bool integers);

Slot read_slot(const SourceLine& line, const Symbols& flags);

/// `earlier` are the reductions declared before, which `after` and Entries may name.
Reduction read_reduction(const SourceLine& line, const Symbols& flags,
                         const std::vector<Reduction>& earlier);

/// `flags` are what its condition may name.
AuxField read_aux_state(const SourceLine& line, const Symbols& flags);

/// `float low, high;` and the like: a line of Meta or of a coefficients' structure.
std::vector<Field> read_fields(const SourceLine& line, const std::vector<std::string_view>& types);

}  // namespace jitstep::jit
