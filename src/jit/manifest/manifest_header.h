// The leading comment of a template file: the description, and keys such as `class: AdamW`. Internal to
// the manifest reader.
#pragma once

#include <string>
#include <vector>

#include "jit/manifest/manifest_fields.h"
#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// The keys in the leading comment of a rule or codec.
std::vector<std::string> keys_of(Manifest::Kind kind);

/// Reads the comment into `manifest`, whose other fields are set. `flags`: the names that conditions may use. Throws an
/// Error with file and line for a malformed key, and for declarations that need a key that is missing.
void read_header(const std::vector<SourceLine>& header, const Symbols& flags, Manifest& manifest);

}  // namespace jitstep::jit
