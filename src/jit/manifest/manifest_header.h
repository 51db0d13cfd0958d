// The leading comment of a template file: the description, and keys such as `class: AdamW`. Internal to
// the manifest reader.
#pragma once

#include <vector>

#include "jit/manifest/manifest_fields.h"
#include "jit/manifest/manifest_lines.h"
#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Reads the comment into `made`, whose kind and path are known. `flags`: what conditions may name. An
/// Error, with its place, for a key that is not written as it is read.
void read_header(const std::vector<SourceLine>& header, const Symbols& flags, Manifest& made);

}  // namespace jitstep::jit
