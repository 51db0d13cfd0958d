// Files that a command writes besides its output.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace jitstep::tool {

/// Throws an Error unless a file can be written to `path`. Call it before a long measurement. Creates no file.
void check_report_path(const std::string& path);

/// Writes the text to `path`. Throws an Error if that fails. A file is complete or unchanged.
void write_report(const std::string& path, const std::string& text);
/// The same for bytes.
void write_output(const std::string& path, std::span<const std::byte> bytes);

}  // namespace jitstep::tool
