// Reads and writes of complete files through file descriptors.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/base/file_handle.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// Writes all bytes to an empty file. Returns false with errno on failure. A file size limit (ulimit -f) is a failure
/// too and raises no signal.
JITSTEP_API bool write_all(int fd, std::span<const std::byte> bytes);

/// The system's message for a failed open or write, with advice: "Too many open files. Close files, or raise the limit
/// (ulimit -n)".
JITSTEP_API std::string failure_advice(int error);

/// All bytes of a file from its start, or nothing with errno.
std::optional<std::vector<std::byte>> read_all(int fd);

/// An anonymous file in memory with this content, at offset 0. `executable` requests a file that may be mapped as code.
/// Empty with errno if the system cannot make one.
FileHandle memory_file(const char* label, std::span<const std::byte> content, bool executable);

/// Removes a folder with its content, and follows no symbolic link. Ignores failures. Use it instead of
/// std::filesystem::remove_all: libtorch.so of PyTorch 2.11 for CUDA exports a function of that name that crashes, and
/// the dynamic linker calls it for every library of the process.
JITSTEP_API void remove_folder(const std::string& path) noexcept;

/// The bytes of a text.
inline std::span<const std::byte> bytes_of(std::string_view content) {
  return std::as_bytes(std::span(content));
}

/// The bytes as text.
inline std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace jitstep::jit
