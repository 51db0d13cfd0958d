// Reads single fields of a manifest's structs: declaration and notes. Internal to the manifest reader.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jit/manifest/expression.h"
#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

using Enumerations = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Parses a condition. Throws an Error with file and line.
Expression read_condition(std::string_view text, const Symbols& symbols, const Location& location);

/// A field of Hyper.
Option read_number(const SourceLine& line);

/// A field of Flags or, with `integers`, of a codec's Options. `symbols`: names that the expression of a lifted flag
/// may use.
Option read_flag(const SourceLine& line, const Enumerations& enums, const Symbols& symbols,
                 bool integers);

/// `transforms`: those that `after:` may name. Without any it is the one of the leading comment, `transformed`.
Slot read_slot(const SourceLine& line, const Symbols& flags,
               const std::vector<RuleTransform>& transforms);

/// `earlier`: the reductions declared before. `after:` and Entries may refer to them.
Reduction read_reduction(const SourceLine& line, const Symbols& flags,
                         const std::vector<Reduction>& earlier,
                         const std::vector<RuleTransform>& transforms);

/// A field of Transforms.
RuleTransform read_transform(const SourceLine& line);

/// A field of Matrices. `flags`: the names that its condition may use.
MatrixField read_matrix(const SourceLine& line, const Symbols& flags);

/// A field of Inputs.
RuleInput read_input(const SourceLine& line);

/// `flags`: the names that its condition may use.
AuxField read_aux_state(const SourceLine& line, const Symbols& flags);

/// Reads a line of Meta or of a coefficients' struct, such as `float low, high;`.
std::vector<Field> read_fields(const SourceLine& line, const std::vector<std::string_view>& types);

}  // namespace jitstep::jit
