// A template file cut into the lines that its manifest is made of. Knows where declarations lie,
// not what they mean. Internal to the manifest reader.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace jitstep::jit {

/// A line of a file, for messages.
struct Place {
  std::string path;
  int line = 0;

  /// Throws an Error "path:line: what".
  [[noreturn]] void fail(const std::string& what) const;
};

/// A declaration and the comment behind it, continued on following lines or not.
struct SourceLine {
  Place place;
  std::string code;
  std::string notes;
};

/// `struct NAME { ... };`: one field a line.
struct SourceStruct {
  Place place;
  std::vector<SourceLine> fields;
};

/// The lines of one file that matter.
struct SourceLines {
  std::vector<SourceLine> header;       // the leading comment, in `notes`
  std::optional<SourceLine> enclosing;  // `code` is the namespace, "jitstep::rules::adamw"
  std::map<std::string, SourceStruct, std::less<>> structs;
  std::map<std::string, std::vector<std::string>, std::less<>> enums;
  std::vector<SourceLine> refusals;  // what follows `refuse:`, in `notes`
  /// The right-hand sides of `using NAME = ...;` and `static constexpr bool NAME = ...;`.
  std::map<std::string, std::vector<SourceLine>, std::less<>> aliases, constants;
};

/// Cuts a text. `strict` names the structs whose every line must be a declaration; others are kept
/// as far as they look like one. Throws an Error for a strict struct that is malformed.
SourceLines cut_source(std::string_view content, const std::string& path,
                       const std::vector<std::string_view>& strict);

std::string_view trimmed(std::string_view text);

/// Reads the small pieces of a declaration from left to right. Any mismatch is an Error.
class Cursor {
 public:
  Cursor(std::string_view text, const Place& place) : text_(text), place_(place) {}

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
  const Place& place_;
  std::size_t at_ = 0;
};

}  // namespace jitstep::jit
