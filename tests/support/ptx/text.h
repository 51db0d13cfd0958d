// Splits PTX into tokens and statements. It knows no operations and no types.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace jitstep::ptx {

/// PTX that the interpreter does not support: "line 12: ...".
class PtxError : public std::runtime_error {
 public:
  PtxError(int line, const std::string& what)
      : std::runtime_error("line " + std::to_string(line) + ": " + what) {}
};

struct Token {
  std::string_view text;  // empty at the end
  int line = 1;
};

/// The tokens of a text, without spaces and comments.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { step(); }

  const Token& peek() const { return now_; }
  bool at(std::string_view text) const { return now_.text == text; }
  bool at_end() const { return now_.text.empty(); }
  Token next();
  /// Consumes the next token if it equals `text`.
  bool take(std::string_view text);
  /// Consumes the next token, which must equal `text`.
  void expect(std::string_view text);

 private:
  void step();
  void skip_spaces();

  std::string_view text_;
  std::size_t offset_ = 0;
  int line_ = 1;
  Token now_;
};

/// An operand of an instruction: `%r1`, `SYM`, `7`, `0f3F800000`, `{a, b}` or `a|b`, `[a+8]`, `(a, b)`.
struct Operand {
  enum class Kind { word, number, list, address } kind = Kind::word;
  std::string word;         // also an address's base
  std::uint64_t bits = 0;   // of a number
  int digits = 0;           // 32 or 64 for a float written as bits, 0 for an integer
  std::int64_t offset = 0;  // of an address
  std::vector<Operand> parts = {};
};

/// A statement such as `@%p1 bra LABEL;`
struct Statement {
  int line = 0;
  std::string guard = {};  // a predicate; empty: always
  bool negated = false;
  std::string opcode = {};
  std::vector<Operand> operands = {};
};

/// Reads an instruction up to its semicolon.
Statement read_statement(Tokens& tokens);

/// Reads a number with its sign.
Operand read_number(Tokens& tokens);

}  // namespace jitstep::ptx
