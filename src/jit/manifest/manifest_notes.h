// Notes after a declaration: constraints, `key: value` pairs and free text, separated by `;`.
// Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// The name of the transform that a rule's leading comment declares.
inline constexpr std::string_view kTransformed = "transformed";

/// The notes of a declaration. Throws an Error if a key appears twice, because only one could have an effect.
std::vector<std::string_view> segments_of(const SourceLine& line);

/// "torch" of "torch: exp_avg". Empty if the segment does not start with a word and a colon.
std::string_view key_of(std::string_view segment);
std::string_view value_of(std::string_view segment);

/// Splits a leading comment at two or more spaces, which separate keys.
std::vector<std::string_view> pieces_between_spaces(std::string_view comment);

/// Throws an Error for a comment that is not UTF-8. Python could not read it.
void refuse_encoding(std::string_view text, const Location& location);

/// Throws an Error if the segment starts with a keyword of the grammar. The message shows the correct form.
void refuse_note(std::string_view segment, const Location& location);

/// Throws an Error if the text begins with words and a colon that are almost one of the keys, but not one of them.
/// Prose such as `Note: ...` begins with a capital letter or with other words.
void refuse_misspelled_key(std::string_view text, const std::vector<std::string>& keys,
                           const Location& location);

/// Appends free text to `note`, unless `note` is null. Throws an Error for text that looks like a misspelled keyword
/// or range.
void add_free_text(std::string_view segment, const Location& location, std::string* note);

/// Adds the segment to `constraint` if it is one. Returns whether it is.
bool read_constraint(std::string_view segment, const Location& location, Constraint& constraint);

}  // namespace jitstep::jit
