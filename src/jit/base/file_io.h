// Whole reads and writes of file descriptors.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/base/file_handle.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Writes all bytes to an empty file; false (with errno) if that fails. A limit on the size of
/// files is such a failure, and no signal.
JITSTEP_API bool write_all(int fd, std::span<const std::byte> bytes);

/// What the system says of a file that was not opened or written, and what to do about it: "Too many open files; close
/// some, or raise their limit (ulimit -n)".
JITSTEP_API std::string failure_advice(int error);

/// All bytes of a file from its start, or nothing (with errno).
std::optional<std::vector<std::byte>> read_all(int fd);

/// A nameless file in memory with the given content, read from its start. `executable` asks for one
/// whose content may be mapped as code. Empty (with errno) if the system has none.
FileHandle memory_file(const char* label, std::span<const std::byte> content, bool executable);

/// The bytes of a text.
inline std::span<const std::byte> bytes_of(std::string_view content) {
  return std::as_bytes(std::span(content));
}

/// The text that some bytes are.
inline std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace jitstep::jit
