// One file of a checkpoint in a folder: tensors as bytes, by name. A zip file without compression, as torch's archives,
// so that a range of a tensor can be read without the others.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "optim/state/part_index.h"

namespace jitstep {

/// A tensor of a part. `values`: contiguous, on any device, with at least one element.
struct PartRecord {
  std::string name;
  torch::Tensor values;
};

/// Writes a part, completely or not at all. Throws a c10::Error that names the file.
void write_part(const std::string& folder, const PartId& id,
                const std::vector<PartRecord>& records);

/// Reads a part. All functions throw a c10::Error that names the file.
class PartFile {
 public:
  /// Throws if the file is missing, truncated, of another save or of a newer version.
  PartFile(const std::string& folder, const PartId& id);
  PartFile(PartFile&&) noexcept;
  PartFile& operator=(PartFile&&) noexcept;
  ~PartFile();

  /// Whether the part has a tensor of this name.
  bool has(const std::string& name);
  /// The bytes of a tensor. Throws if the part has no such tensor, or if the file is shorter.
  std::int64_t bytes(const std::string& name);
  /// Reads bytes [first, first + count) of it.
  void read(const std::string& name, std::int64_t first, std::int64_t count, void* to);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace jitstep
