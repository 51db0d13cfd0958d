// Reads the declarations of a template file, without a compiler.
#pragma once

#include <string>
#include <string_view>

#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Reads a file's text. `path` is the file's name in messages. Its stem must be the name of the namespace.
/// Throws an Error that starts with "path:line: " for text that does not follow the grammar, and for code that
/// manifest_code.h rejects.
Manifest read_manifest(std::string_view content, const std::string& path, Manifest::Kind kind);

}  // namespace jitstep::jit
