// Checks that the braces of a template file match. Internal to the manifest reader.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_cursor.h"

namespace jitstep::jit {

/// Checks a file's lines one by one. Without this check, a compiler would report a missing brace in the file that it
/// reads next. A file with #if is not checked, because both branches may contain the same brace.
class Braces {
 public:
  /// `code`: a line without comments and contents of literals. `indent`: its first column. Throws an Error for a `}`
  /// without a `{`.
  void take(std::string_view code, std::size_t indent, const Location& location);

  /// Call it at the end of the file. Throws an Error with the line of a `{` that is still open.
  void end() const;

 private:
  struct Open {
    Location location;
    std::size_t indent;
  };

  void close(bool first, std::size_t indent, const Location& location);

  std::vector<Open> open_;
  std::vector<Open> suspects_;  // closed by a `}` with smaller indentation
  bool conditional_ = false;
};

}  // namespace jitstep::jit
