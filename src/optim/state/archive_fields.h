// Entries of torch's archives, by type. A c10::Error names an entry that is not there or is of another
// type: such an archive is damaged, or no optimizer's.
#pragma once

#include <torch/serialize/archive.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jitstep {

torch::serialize::InputArchive read_part(torch::serialize::InputArchive& archive,
                                         const std::string& key);
std::int64_t read_integer(torch::serialize::InputArchive& archive, const std::string& key);
/// Of a list, which torch keeps in a tensor.
std::int64_t read_size(torch::serialize::InputArchive& archive, const std::string& key);
std::vector<std::int64_t> read_integers(torch::serialize::InputArchive& archive,
                                        const std::string& key);
std::string read_string(torch::serialize::InputArchive& archive, const std::string& key);

/// Undefined if it is not there.
torch::Tensor read_tensor(torch::serialize::InputArchive& archive, const std::string& key);

}  // namespace jitstep
