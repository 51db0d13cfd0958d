// Splits a template file into the lines of its manifest. Finds declarations without interpreting them. Internal to the
// manifest reader.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_braces.h"
#include "jit/manifest/manifest_cursor.h"

namespace jitstep::jit {

/// A declaration and the comment after it, which may continue on the following lines.
struct SourceLine {
  Location location;
  std::string code;
  std::string notes;
};

/// `struct NAME { ... };`. Each field starts on a new line and ends with a semicolon.
struct SourceStruct {
  Location location;
  std::vector<SourceLine> fields;
};

/// The lines of one file that belong to its manifest.
struct SourceLines {
  std::vector<SourceLine> header;       // the leading comment, in `notes`
  std::optional<SourceLine> enclosing;  // `code` is the namespace: "jitstep::rules::adamw"
  std::map<std::string, SourceStruct, std::less<>> structs;
  std::map<std::string, std::vector<std::string>, std::less<>> enums;
  std::vector<SourceLine> refusals;  // the text after `refuse:`, in `notes`
  Braces braces;                     // over the whole file
  std::string code;  // of the whole file, without comments and the contents of literals
  /// The right-hand sides of `using NAME = ...;` and `static constexpr bool NAME = ...;`.
  std::map<std::string, std::vector<SourceLine>, std::less<>> aliases, constants;
};

/// Splits a text. `strict`: names of structs that may contain only declarations. The fields of other structs are
/// read as far as possible. `keys`: those of the leading comment, which are errors elsewhere. Throws an Error for a
/// malformed strict struct.
SourceLines cut_source(std::string_view content, const std::string& path,
                       std::span<const std::string_view> strict,
                       std::span<const std::string> keys = {});

/// Checks a text without a manifest, which a template includes. Throws an Error for code that cut_source() rejects in
/// every file.
void check_source(std::string_view content, const std::string& path);

}  // namespace jitstep::jit
