// Conditions over options, as manifests write them: `nesterov && (momentum <= 0 || dampening !=
// 0)`, `decay == after`, `!amsgrad`, `eps[0] == null`. Knows no manifest.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/value.h"

namespace jitstep::jit {

/// What a name in an expression stands for.
struct Symbol {
  /// The types of option values.
  enum class Type { number, nullable, numbers, boolean, choice };

  Type type = Type::number;
  int count = 0;                     // of numbers
  std::vector<std::string> choices;  // of a choice
};

/// A condition whose names and types were checked when it was read. Cheap to copy, immutable.
class JITSTEP_API Expression {
 public:
  /// The symbol of a name, or null if there is none. Asked while reading only.
  using Scope = std::function<const Symbol*(std::string_view name)>;
  /// The value of a name; it has the symbol's type.
  using Values = std::function<Value(std::string_view name)>;

  /// Reads a condition. An Error says what was expected and where.
  static Expression parse(std::string_view text, const Scope& scope);

  /// Whether the condition is true; every name in it must have a value.
  bool holds(const Values& values) const;
  bool holds(const NamedValues& values) const;

  /// Whether it asks for the value of a name.
  bool reads(std::string_view name) const;

  /// The condition as it was written.
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
  /// Nodes lie in one array, operands before operators; the last one is the root.
  struct Node {
    Op op = Op::constant;
    int left = -1;
    int right = -1;
    int index = 0;  // of an element
    Value value{};  // of a constant; the name of a name
  };

  Value evaluate(int node, const Values& values) const;

  std::string text_;
  std::vector<Node> nodes_;
};

}  // namespace jitstep::jit
