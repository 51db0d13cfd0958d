#include "jit/manifest/expression.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "jit/base/args.h"
#include "jit/base/characters.h"
#include "jit/base/text.h"
#include "jit/manifest/manifest_names.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

constexpr int kMaxDepth = 32;  // of nested parentheses and negations; bounds the recursion
constexpr std::size_t kMaxNodes = 256;
constexpr std::size_t kLongestQuote = 83;  // bytes of a condition in a message

}  // namespace

/// All nodes are in one array, operands before operators. The last one is the root.
struct Expression::Node {
  enum class Op {
    constant,
    name,
    size,
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

  Op op = Op::constant;
  int left = -1;
  int right = -1;
  int index = 0;  // of Op::element
  Value value{};  // of a constant; for a name, its text; for a size, "numel" or "size(0)"
};

/// Recursive descent: either > both > comparison > operand.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, const Symbols& symbols)
      : text_(text), symbols_(symbols) {}

  Expression run() {
    const Term term = either();
    skip_spaces();
    if (at_ < text_.size()) fail("expected the end or an operator");
    if (term.type != Type::boolean) fail("expected a condition, such as `x != 0`");
    Expression result;
    result.text_ = text_;
    result.nodes_ = std::make_shared<const std::vector<Expression::Node>>(std::move(nodes_));
    return result;
  }

 private:
  using Op = Expression::Node::Op;
  enum class Type { number, boolean, choice, null };
  struct Term {
    int node = -1;
    Type type = Type::boolean;
    bool nullable = false;
    const Symbol* symbol = nullptr;
  };

  [[noreturn]] void fail(const std::string& what) const {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    throw Error(
        str_cat("in the condition \"", abbreviated(text_, kLongestQuote), "\": ", what, ", found ",
                rest.empty() ? "its end" : str_cat("\"", abbreviated(rest, kLongestQuote), "\"")));
  }

  [[noreturn]] void fail_at(std::size_t at, const std::string& what) {
    at_ = at;
    fail(what);
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  std::string word() {
    skip_spaces();
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           (is_word_start(text_[at_]) || (at_ > start && is_digit(text_[at_]))))
      ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  int add(Expression::Node node) {
    if (nodes_.size() >= kMaxNodes) fail("expected a shorter condition");
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }
  Term operation(Op op, int left, int right = -1) {
    return {add({op, left, right}), Type::boolean};
  }
  void need_boolean(const Term& term) const {
    if (term.type != Type::boolean) fail("expected a condition next to &&, || or !");
  }

  Term either() {
    return chain(Op::either, "||", [this] { return both(); });
  }
  Term both() {
    return chain(Op::both, "&&", [this] { return comparison(); });
  }

  template <class Next>
  Term chain(Op op, std::string_view token, const Next& next) {
    Term left = next();
    while (take(token)) {
      need_boolean(left);
      const Term right = next();
      need_boolean(right);
      left = operation(op, left.node, right.node);
    }
    return left;
  }

  Term comparison() {
    const Term left = operand();
    if (take("==")) return equality(Op::same, left);
    if (take("!=")) return equality(Op::differ, left);
    if (take("<=")) return order(Op::at_most, left, false);
    if (take(">=")) return order(Op::at_most, left, true);
    if (take("<")) return order(Op::less, left, false);
    if (take(">")) return order(Op::less, left, true);
    return left;
  }

  Term order(Op op, const Term& left, bool swapped) {
    const Term right = operand();
    if (left.type != Type::number || right.type != Type::number)
      fail("expected numbers on both sides of <, <=, > or >=");
    return swapped ? operation(op, right.node, left.node) : operation(op, left.node, right.node);
  }

  Term equality(Op op, const Term& left) {
    const Term right = left.type == Type::choice ? label(*left.symbol) : operand();
    if (left.type == Type::null || right.type == Type::null)
      return null_test(op, left.type == Type::null ? right : left);
    if (left.type != right.type) fail("expected two values of the same type");
    return operation(op, left.node, right.node);
  }

  Term label(const Symbol& symbol) {
    const std::string name = word();
    if (std::find(symbol.choices.begin(), symbol.choices.end(), name) == symbol.choices.end())
      fail_at(at_ - name.size(), str_cat("expected one of the choices, ", joined(symbol.choices)));
    return {add({Op::constant, -1, -1, 0, name}), Type::choice};
  }

  Term null_test(Op op, const Term& term) {
    if (!term.nullable) fail("expected an option that may be null next to null");
    const Term test = operation(Op::is_null, term.node);
    return op == Op::same ? test : operation(Op::negate, test.node);
  }

  Term operand() {
    if (++depth_ > kMaxDepth) fail("expected fewer nested parentheses");
    const Term term = unnested_operand();
    --depth_;
    return term;
  }

  Term unnested_operand() {
    skip_spaces();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (take("(")) {
      const Term inside = either();
      if (!take(")")) fail("expected )");
      return inside;
    }
    if (c == '!' && !text_.substr(at_).starts_with("!=")) {
      ++at_;
      const Term inside = operand();
      need_boolean(inside);
      return operation(Op::negate, inside.node);
    }
    if (is_digit(c) || c == '-' || c == '.') return number();
    if (is_word_start(c)) return named();
    fail("expected an option, a number, ! or (");
  }

  // Reads a number of this type. Without one, returns `otherwise` and reads nothing.
  template <class T>
  T read(T otherwise) {
    const char* const start = text_.data() + at_;
    const auto [end, problem] = std::from_chars(start, text_.data() + text_.size(), otherwise);
    if (problem == std::errc()) at_ += static_cast<std::size_t>(end - start);
    return otherwise;
  }

  Term number() {
    const std::size_t start = at_;
    const double x = read(std::numeric_limits<double>::quiet_NaN());
    if (!std::isfinite(x)) fail_at(start, "expected a number");
    return {add({Op::constant, -1, -1, 0, x}), Type::number};
  }

  Term named() {
    const std::size_t start = at_;
    const std::string name = word();
    if (name == "null") return {-1, Type::null};
    if (name == "true" || name == "false")
      return {add({Op::constant, -1, -1, 0, name == "true"}), Type::boolean};
    const auto found = symbols_.find(name);
    const Symbol* const symbol = found == symbols_.end() ? nullptr : &found->second;
    if (symbol == nullptr || !symbol->is_usable())
      throw Error(str_cat("in the condition \"", abbreviated(text_, kLongestQuote),
                          "\": ", unknown_name(name, symbols_)));
    if (symbol->type == Symbol::Type::numbers) return element(start, name, *symbol);
    if (symbol->type == Symbol::Type::sizes) return size_of_dimension(start, name);
    const bool nullable = symbol->type == Symbol::Type::nullable;
    const Type type = symbol->type == Symbol::Type::boolean  ? Type::boolean
                      : symbol->type == Symbol::Type::choice ? Type::choice
                                                             : Type::number;
    const Op op = symbol->type == Symbol::Type::size ? Op::size : Op::name;
    return {add({op, -1, -1, 0, name}), type, nullable, symbol};
  }

  Term size_of_dimension(std::size_t start_of_name, const std::string& name) {
    int dimension = kMaxDims;
    if (take("(")) {
      skip_spaces();
      dimension = read(kMaxDims);
    }
    if (dimension < -kMaxDims || dimension >= kMaxDims || !take(")"))
      fail_at(start_of_name, str_cat("expected a dimension, ", name, "(", -kMaxDims, ") to ", name,
                                     "(", kMaxDims - 1, ")"));
    return {add({Op::size, -1, -1, 0, str_cat(name, "(", dimension, ")")}), Type::number};
  }

  Term element(std::size_t start_of_name, const std::string& name, const Symbol& symbol) {
    const int index = take("[") ? read(-1) : -1;
    if (index < 0 || index >= symbol.count || !take("]"))
      fail_at(start_of_name,
              str_cat("expected an element, ", name, "[0] to ", name, "[", symbol.count - 1, "]"));
    return {add({Op::element, -1, -1, index, name}), Type::number, true};
  }

  std::string_view text_;
  const Symbols& symbols_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<Expression::Node> nodes_;
};

Symbol symbol_of(const Option& option) {
  using Type = Option::Type;
  switch (option.type) {
    case Type::nullable:
      return {Symbol::Type::nullable, 1, {}};
    case Type::numbers:
      return {Symbol::Type::numbers, option.count, {}};
    case Type::boolean:
      return {Symbol::Type::boolean, 1, {}};
    case Type::choice:
      return {Symbol::Type::choice, 1, option.choices};
    default:
      return {Symbol::Type::number, 1, {}};
  }
}

Expression parse_expression(std::string_view text, const Symbols& symbols) {
  return ExpressionParser(text, symbols).run();
}

bool Expression::holds(const Values& values) const {
  return evaluate(static_cast<int>(nodes_->size()) - 1, values).boolean();
}

bool Expression::holds(const NamedValues& values) const {
  return holds([&](std::string_view name) {
    const auto found = values.find(name);
    if (found == values.end())
      throw Error(str_cat("the condition \"", text_, "\" reads ", name, ", which has no value"));
    return found->second;
  });
}

bool Expression::reads(std::string_view name) const {
  return std::any_of(nodes_->begin(), nodes_->end(), [&](const Node& node) {
    return (node.op == Node::Op::name || node.op == Node::Op::size ||
            node.op == Node::Op::element) &&
           node.value.choice() == name;
  });
}

bool Expression::reads_sizes() const {
  return std::any_of(nodes_->begin(), nodes_->end(), [](const Node& node) {
    return node.op == Node::Op::size && node.value.choice() != "dims";
  });
}

Value Expression::evaluate(int index, const Values& values) const {
  using Op = Node::Op;
  const Node& node = (*nodes_)[static_cast<std::size_t>(index)];
  const auto left = [&] { return evaluate(node.left, values); };
  const auto right = [&] { return evaluate(node.right, values); };
  switch (node.op) {
    case Op::constant:
      return node.value;
    case Op::size:
      return values(node.value.choice());
    case Op::name: {
      const Value value = values(node.value.choice());
      return value.is_null() ? Value(std::numeric_limits<double>::quiet_NaN()) : value;
    }
    case Op::element:
      return values(node.value.choice()).numbers().at(static_cast<std::size_t>(node.index));
    case Op::is_null:
      return std::isnan(left().number());
    case Op::negate:
      return !left().boolean();
    case Op::both:
      return left().boolean() && right().boolean();
    case Op::either:
      return left().boolean() || right().boolean();
    case Op::same:
      return left() == right();
    case Op::differ:
      return !(left() == right());
    case Op::less:
      return left().number() < right().number();
    case Op::at_most:
      return left().number() <= right().number();
  }
  return false;
}

}  // namespace jitstep::jit
