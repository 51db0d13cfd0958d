// Tokens and line numbers in the text of a template file. Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// A file and line, for messages.
struct Location {
  std::string path;
  int line = 0;

  /// Throws an Error "path:line: what".
  [[noreturn]] void fail(const std::string& what) const;
};

std::string_view trimmed(std::string_view text);

/// Reads the tokens of a declaration from left to right. Throws an Error on a mismatch.
class Cursor {
 public:
  Cursor(std::string_view text, const Location& location) : text_(text), location_(location) {}

  bool take(std::string_view token);
  /// The same, but the token must be a whole word.
  bool take_word(std::string_view word);
  void expect(std::string_view token);
  /// Reads an identifier. `what` describes it in the error message.
  std::string identifier(const std::string& what);
  double number();
  int integer(int low, int high);
  void expect_end();
  /// Expects a semicolon, and nothing after it.
  void end_declaration();
  bool at_end();
  std::string_view rest();
  [[noreturn]] void fail(const std::string& expected);

 private:
  void skip_spaces();

  std::string_view text_;
  const Location& location_;
  std::size_t at_ = 0;
};

/// Reads a value that consists of one name. `what` describes it in the error message.
std::string read_name(std::string_view value, const Location& location, const char* what);

}  // namespace jitstep::jit
