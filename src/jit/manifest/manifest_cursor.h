// Words, numbers and places in the text of a template file. Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// A line of a file, for messages.
struct Place {
  std::string path;
  int line = 0;

  /// Throws an Error "path:line: what".
  [[noreturn]] void fail(const std::string& what) const;
};

std::string_view trimmed(std::string_view text);

/// Reads the small pieces of a declaration from left to right. Any mismatch is an Error.
class Cursor {
 public:
  Cursor(std::string_view text, const Place& location) : text_(text), location_(location) {}

  bool take(std::string_view token);
  /// The same for a whole word.
  bool take_word(std::string_view word);
  void expect(std::string_view token);
  /// An identifier; `what` says what for.
  std::string identifier(const std::string& what);
  double number();
  int integer(int low, int high);
  void expect_end();
  bool at_end();
  std::string_view rest();
  [[noreturn]] void fail(const std::string& expected);

 private:
  void skip_spaces();

  std::string_view text_;
  const Place& location_;
  std::size_t at_ = 0;
};

}  // namespace jitstep::jit
