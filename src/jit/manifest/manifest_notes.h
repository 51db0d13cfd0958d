// The notes behind a declaration: constraints, `key: value` pairs and prose, separated by `;`.
// Internal to the manifest reader.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

std::vector<std::string_view> segments_of(std::string_view notes);

/// "torch" of "torch: exp_avg"; empty if the segment does not begin with a word and a colon.
std::string_view key_of(std::string_view segment);
std::string_view value_of(std::string_view segment);

/// An Error if the segment begins as a note of the grammar does, which says how that is written.
void refuse_note(std::string_view segment, const Place& location);

/// A note for people, kept in `note` unless that is null; what looks like a misspelt note for the
/// reader is an Error.
void keep_prose(std::string_view segment, const Place& location, std::string* note);

/// Whether a segment is a constraint; it is added then.
bool read_constraint(std::string_view segment, const Place& location, Constraint& constraint);

}  // namespace jitstep::jit
