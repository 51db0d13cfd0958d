// What the code of a template must not do, though a compiler takes it: set the compiler's ways, rename what others
// use, keep a value between elements. Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_cursor.h"

namespace jitstep::jit {

/// Looks at a file line by line, in order.
class CodeCheck {
 public:
  /// A line without comments, quoted texts as spaces. An Error for what changes more than this file's formulas, or what
  /// another element sees.
  void take(std::string_view code, const Place& location);

 private:
  enum class Scope { of_namespace, of_structure, of_function };

  void read(char c, const Place& location);
  bool in_value(char c);
  void open();
  void end_statement();
  Scope scope() const { return scopes_.empty() ? Scope::of_namespace : scopes_.back(); }

  std::vector<Scope> scopes_;
  int values_ =
      0;  // open braces of values among the arguments of a template: Base<Options{.block = 8}>
  std::string statement_;  // since the last brace or semicolon
  Place begin_;            // of the statement
};

}  // namespace jitstep::jit
