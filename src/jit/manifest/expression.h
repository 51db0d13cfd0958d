// Reads conditions over options, in the syntax of manifests: `nesterov && (momentum <= 0 || dampening != 0)`, `decay ==
// after`, `!amsgrad`, `eps[0] == null`, `size(0) > 1`. Does not know manifests' files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// The type of a name in an expression.
struct Symbol {
  /// The types of option values, a size of the parameter, its sizes by dimension: `size(0)`, an option that is declared
  /// below the condition, and an option that is no flag, where only flags decide.
  enum class Type { number, nullable, numbers, boolean, choice, size, sizes, later, no_flag };

  bool is_usable() const { return type != Type::later && type != Type::no_flag; }

  Type type = Type::number;
  int count = 0;                     // how many numbers
  std::vector<std::string> choices;  // of Type::choice
};

/// The symbol of an option.
Symbol symbol_of(const Option& option);

/// Names that a condition may use.
using Symbols = std::map<std::string, Symbol, std::less<>>;

/// Parses a condition and checks its names and types. Throws an Error with the expected token and its position.
Expression parse_expression(std::string_view text, const Symbols& symbols);

}  // namespace jitstep::jit
