// Reads the recorded trajectories: 8 bytes of header length, a JSON header, raw tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace jitstep::support {

struct RecordedTensor {
  std::string dtype;  // "F32", "F64", "BF16", "U8", ...
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  /// The values as doubles, for any dtype.
  std::vector<double> values() const;
};

struct RecordedFile {
  std::map<std::string, RecordedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Throws std::runtime_error with the path if the file is not valid.
RecordedFile read_safetensors(const std::string& path);

}  // namespace jitstep::support
