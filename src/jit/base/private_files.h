// Which folders and files the cache trusts: what it loads is run as code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace jitstep::jit {

/// Whose files are taken.
enum class Trust { own, own_or_root };

/// A relative folder is the one of the moment: a program may change its own later.
std::string in_place(const std::string& folder);

/// Makes a folder and its missing parents with mode 0700. The reason if that fails.
std::optional<std::string> make_folder(const std::string& path);

/// Why a folder is not to be used: missing, of another user, writable by others, or a link that
/// another user made. Nothing if it is.
std::optional<std::string> folder_problem(const std::string& path, Trust trust);

/// The content of a regular, trusted file of at most `limit` bytes, or nothing. Links are not
/// followed, and nothing that could block is waited for. `why`, if given, becomes the reason for nothing: "it may be
/// written to by other users; ...".
std::optional<std::vector<std::byte>> read_trusted(const std::string& path, Trust trust,
                                                   std::uint64_t limit, std::string* why = nullptr);

/// The content of a file of code that the user named, such as a template. Throws Error with the
/// reason unless it is a regular file of this user or root that others cannot write to.
std::string read_code_file(const std::string& path);

/// Puts a whole file in place: written aside as a hidden .tmp file, synced, renamed. The reason if
/// that fails; nothing is left behind then.
std::optional<std::string> write_atomically(const std::string& path,
                                            std::span<const std::byte> bytes);

}  // namespace jitstep::jit
