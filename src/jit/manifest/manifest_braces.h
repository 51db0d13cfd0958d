// Whether the braces of a template file match. Internal to the manifest reader.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_cursor.h"

namespace jitstep::jit {

/// Takes a file's lines one by one. A brace that is missing would else be found in whatever file a compiler
/// reads next. (Where a file has #if, braces may stand in both branches: nothing is said then.)
class Braces {
 public:
  /// A line's code without comments and quoted texts, and where it begins. A `}` too many is an Error.
  void take(std::string_view code, std::size_t indent, const Place& location);

  /// The end of the file: a `{` that is still open is an Error at its line.
  void end() const;

 private:
  struct Open {
    Place location;
    std::size_t indent;
  };

  void close(bool first, std::size_t indent, const Place& location);

  std::vector<Open> open_;
  std::vector<Open> suspects_;  // closed by a brace that stands under another line
  bool conditional_ = false;
};

}  // namespace jitstep::jit
