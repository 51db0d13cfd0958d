// Reads what a template file declares, without a compiler.
#pragma once

#include <string>
#include <string_view>

#include "jitstep/jit/manifest.h"

namespace jitstep::jit {

/// Reads a file's text. `path` is the file's name in messages; its stem must be the name of the
/// namespace. Whatever does not follow the grammar is an Error that begins with "path:line:".
/// Code outside the declarations is not looked at.
Manifest read_manifest(std::string_view content, const std::string& path, Manifest::Kind kind);

}  // namespace jitstep::jit
