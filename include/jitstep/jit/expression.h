// Conditions over options, in the syntax of manifests: `nesterov && (momentum <= 0 || dampening != 0)`, `decay ==
// after`, `!amsgrad`, `eps[0] == null`. Does not know manifests.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/value.h"

namespace jitstep::jit {

/// The type of a name in an expression.
struct Symbol {
  /// The types of option values.
  enum class Type { number, nullable, numbers, boolean, choice };

  Type type = Type::number;
  int count = 0;                     // number of numbers
  std::vector<std::string> choices;  // of Type::choice
};

/// A condition with names and types that parse() has checked. Cheap to copy, immutable.
class JITSTEP_API Expression {
 public:
  /// The symbol of a name, or null for an unknown name. Only parse() calls it.
  using Scope = std::function<const Symbol*(std::string_view name)>;
  /// The value of a name. It must have the symbol's type.
  using Values = std::function<Value(std::string_view name)>;

  /// Parses a condition. Throws an Error with the expected token and its position.
  static Expression parse(std::string_view text, const Scope& scope);

  /// True if the condition is true. Every name in it must have a value.
  bool holds(const Values& values) const;
  bool holds(const NamedValues& values) const;

  /// True if the condition contains the name.
  bool reads(std::string_view name) const;

  /// The source text of the condition.
  const std::string& written() const { return text_; }

 private:
  friend class ExpressionParser;

  enum class Op {
    constant,
    name,
    element,
    is_null,
    negate,
    both,
    either,
    same,
    differ,
    less,
    at_most
  };
  /// All nodes are in one array, operands before operators. The last one is the root.
  struct Node {
    Op op = Op::constant;
    int left = -1;
    int right = -1;
    int index = 0;  // of Op::element
    Value value{};  // of a constant; for a name, its text
  };

  Value evaluate(int node, const Values& values) const;

  std::string text_;
  std::vector<Node> nodes_;
};

}  // namespace jitstep::jit
