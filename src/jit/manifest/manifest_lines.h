// A template file cut into the lines that its manifest is made of. Knows where declarations lie,
// not what they mean. Internal to the manifest reader.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_braces.h"
#include "jit/manifest/manifest_cursor.h"

namespace jitstep::jit {

/// A declaration and the comment behind it, continued on following lines or not.
struct SourceLine {
  Place location;
  std::string code;
  std::string notes;
};

/// `struct NAME { ... };`: one field a line.
struct SourceStruct {
  Place location;
  std::vector<SourceLine> fields;
};

/// The lines of one file that matter.
struct SourceLines {
  std::vector<SourceLine> header;       // the leading comment, in `notes`
  std::optional<SourceLine> enclosing;  // `code` is the namespace, "jitstep::rules::adamw"
  std::map<std::string, SourceStruct, std::less<>> structs;
  std::map<std::string, std::vector<std::string>, std::less<>> enums;
  std::vector<SourceLine> refusals;  // what follows `refuse:`, in `notes`
  Braces braces;                     // of the whole file
  /// The right-hand sides of `using NAME = ...;` and `static constexpr bool NAME = ...;`.
  std::map<std::string, std::vector<SourceLine>, std::less<>> aliases, constants;
};

/// Cuts a text. `strict` names the structs whose every line must be a declaration; others are kept
/// as far as they look like one. Throws an Error for a strict struct that is malformed.
SourceLines cut_source(std::string_view content, const std::string& path,
                       const std::vector<std::string_view>& strict);

}  // namespace jitstep::jit
