// Checks template code for valid C++ that a template must not contain: compiler settings, macros, and variables that
// outlive an element. Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_cursor.h"

namespace jitstep::jit {

/// Checks a file line by line, in order.
class CodeCheck {
 public:
  /// `code`: a line without comments, with the contents of literals replaced by spaces. Throws an Error for code that
  /// affects other files or other elements.
  void take(std::string_view code, const Location& location);

 private:
  enum class Scope { of_namespace, of_structure, of_function };

  void check_long_double(std::string_view code, const Location& location);
  void read(char c, const Location& location);
  bool in_value(char c);
  void open();
  void end_statement();
  Scope scope() const { return scopes_.empty() ? Scope::of_namespace : scopes_.back(); }

  std::string word_;  // the last one, or a sign
  std::vector<Scope> scopes_;
  // Open braces of values among template arguments, such as Base<Options{.block = 8}>.
  int values_ = 0;
  std::string statement_;  // text since the last brace or semicolon
  Location begin_;         // start of the statement
};

/// Whether code may write `next` of a field of auxiliary state: it assigns to `m.FIELD.next`, or passes it or `m.FIELD`
/// on as an argument or a value, perhaps by reference.
bool assigns_next(std::string_view code, std::string_view field);

}  // namespace jitstep::jit
