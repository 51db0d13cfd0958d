// Checks which folders and files can be trusted, because the cache loads code from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/base/file_handle.h"
#include "jit/base/problem.h"

namespace jitstep::jit {

/// Accepted owners of files.
enum class Trust {
  own,
  own_or_root,
  source,  // as own_or_root, and writable by the user's private group, as files are that the umask 002 makes
  anyone,  // of any user, and writable by others, for files of the program's own package
};

/// The absolute path of a folder. The program may change its working directory later. An empty name stays empty.
std::string absolute_folder(const std::string& folder);

/// Makes a folder and missing parents with mode 0700. Returns the reason of a failure.
Problem make_folder(const std::string& path);

/// Why a folder must not be used: it is missing, belongs to another user, is writable by others, or is a link of
/// another user. Nothing if it may be used.
Problem folder_problem(const std::string& path, Trust trust);

/// Makes a folder for files of this user alone. Returns why it must not be used.
Problem make_own_folder(const std::string& path);

/// A regular, trusted file of at most `limit` bytes, open for reading. Does not block. Follows links only for
/// Trust::anyone: package managers and container volumes make them, and the package is trusted anyway.
class TrustedFile {
 public:
  TrustedFile(const std::string& path, Trust trust, std::uint64_t limit);

  /// Why the file must not be read: "other users can write to it. ...". Empty if it may be read.
  const std::string& problem() const { return problem_; }
  /// The size of the whole file in bytes.
  std::uint64_t size() const { return size_; }
  /// The first `most` bytes, or all bytes of a shorter file. Nothing if the file must not be read, or with errno if a
  /// read fails.
  std::optional<std::vector<std::byte>> start(std::uint64_t most) const;

 private:
  FileHandle file_;
  std::uint64_t size_ = 0;
  std::string problem_;
};

/// The content of a file, or nothing, under the conditions of TrustedFile. If it returns nothing, `why` becomes the
/// reason.
std::optional<std::vector<std::byte>> read_trusted(const std::string& path, Trust trust,
                                                   std::uint64_t limit, std::string* why = nullptr);

/// The content of a source file that the user named, such as a template. Throws an Error with the reason unless it is a
/// regular file of at most 64 MiB under the conditions of Trust::source.
std::string read_code_file(const std::string& path);

/// Writes a file atomically: writes a hidden .tmp file, syncs it and renames it. Returns the reason of a failure with
/// errno, and then leaves no file. A killed writer may leave the .tmp file.
Problem write_atomically(const std::string& path, std::span<const std::byte> bytes);

/// If `name` is the name of a .tmp file of write_atomically, the stem of the file that it writes: "tuning" for
/// tuning.jsonl.
std::optional<std::string_view> stem_of_temporary(std::string_view name);

}  // namespace jitstep::jit
