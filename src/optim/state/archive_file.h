// Archives as files: what is no whole archive is named, and a file is replaced by nothing but a whole one.
#pragma once

#include <torch/serialize/archive.h>

#include <optional>
#include <string>

namespace jitstep {

/// Reads a file; its tensors come to `device`, or to where they were when it was written. A c10::Error names a file that
/// is not there, was cut short or is no archive.
torch::serialize::InputArchive open_archive(const std::string& file,
                                            std::optional<torch::Device> device = std::nullopt);

/// Writes a file, or the one that a link leads to. What was there stays until the new one is whole, and for good if that
/// cannot be written, which is a c10::Error.
void write_file(torch::serialize::OutputArchive& archive, const std::string& file);

}  // namespace jitstep
