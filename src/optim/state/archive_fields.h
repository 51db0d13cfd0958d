// Typed access to the entries of torch's archives. The functions throw a c10::Error that names an entry if it is
// missing or has another type. Such an archive is damaged, or contains no optimizer.
#pragma once

#include <torch/serialize/archive.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jitstep {

torch::serialize::InputArchive read_entry(torch::serialize::InputArchive& archive,
                                          const std::string& key);
std::int64_t read_integer(torch::serialize::InputArchive& archive, const std::string& key);
/// The size of a list. torch writes it as a tensor of one element.
std::int64_t read_size(torch::serialize::InputArchive& archive, const std::string& key);
std::vector<std::int64_t> read_integers(torch::serialize::InputArchive& archive,
                                        const std::string& key);
std::string read_string(torch::serialize::InputArchive& archive, const std::string& key);

/// An undefined tensor if the entry is missing.
torch::Tensor read_tensor(torch::serialize::InputArchive& archive, const std::string& key);

}  // namespace jitstep
