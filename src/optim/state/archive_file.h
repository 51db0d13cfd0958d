// Reading and writing archive files. A write replaces a file completely or not at all.
#pragma once

#include <torch/serialize/archive.h>

#include <cstddef>
#include <functional>
#include <string>

namespace jitstep {

/// Reads a file. Its tensors are loaded to the CPU, because the devices that they were saved from may not exist here.
/// Throws a c10::Error that names the file if it is missing, truncated or not an archive.
torch::serialize::InputArchive open_archive(const std::string& file);

/// Why the system has no file at a path, or refuses to tell: "there is no such file", "Permission denied". Empty for a
/// file. Follows symbolic links. Throws nothing, unlike std::filesystem::is_regular_file().
std::string file_problem(const std::string& path);

/// The same for a folder.
std::string folder_problem(const std::string& path);

/// Writes a file; follows symbolic links. Replaces an existing file only after the new one is complete. Throws a
/// c10::Error if that fails; the existing file is unchanged then.
void write_file(torch::serialize::OutputArchive& archive, const std::string& file);

/// Takes the next bytes of a file, and returns their number. Throws nothing.
using ByteSink = std::function<std::size_t(const void* data, std::size_t size)>;

/// The same for any content. `write_content` is called once.
void write_file(const std::string& file,
                const std::function<void(const ByteSink& sink)>& write_content);

/// The first line of an error's message. torch's further lines are context and a stack trace.
std::string first_line(const std::exception& error);

}  // namespace jitstep
