// Reading and writing archive files. A write replaces a file completely or not at all.
#pragma once

#include <torch/serialize/archive.h>

#include <optional>
#include <string>

namespace jitstep {

/// Reads a file. Its tensors are loaded to `device`, or to the devices that they were saved from. Throws a c10::Error
/// that names the file if it is missing, truncated or not an archive.
torch::serialize::InputArchive open_archive(const std::string& file,
                                            std::optional<torch::Device> device = std::nullopt);

/// Writes a file; follows symbolic links. Replaces an existing file only after the new one is complete. Throws a
/// c10::Error if that fails; the existing file is unchanged then.
void write_file(torch::serialize::OutputArchive& archive, const std::string& file);

}  // namespace jitstep
