// Reads and writes of files through file descriptors, and what else files need.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// The same, but at most `most` bytes.
std::optional<std::vector<std::byte>> read_start(int fd, std::size_t most);

/// Waits until a file's bytes are on the disk, and returns false with errno if that fails. A file system that does not
/// support fsync is no failure.
JITSTEP_API bool sync_file(int fd);

/// Waits until the names of a folder's files are on the disk. Ignores failures.
JITSTEP_API void sync_folder(const std::string& path);

/// A text that changes with every change of a file: its device, inode, size and change times. Empty if there is no
/// file. Follows links.
std::string file_stamp(const std::string& path);

/// Marks a file as used now. Uses the modification time, because mount options disable access times. Has no effect
/// without permission.
void mark_used(const std::string& path);

/// A number that nobody can guess, or nothing with errno.
JITSTEP_API std::optional<std::uint64_t> random_number();

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
