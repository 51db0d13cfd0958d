// A file with the sources of kernels, for another process to compile. It is code: only its owner may write to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"

namespace jitstep::jit {

/// A kernel in such a file. `source` is preprocessed. `unit` includes templates by name.
struct KernelText {
  std::string name;
  Target target;
  std::string unit, source;
};

/// Writes one line of JSON per distinct kernel. Throws an Error if the file cannot be written.
JITSTEP_API void write_kernel_list(const std::vector<std::shared_ptr<const Built>>& kernels,
                                   const std::string& file);

/// Reads such a file. Throws an Error if it is invalid, with the line number, or if others can write to it.
JITSTEP_API std::vector<KernelText> read_kernel_list(const std::string& file);

}  // namespace jitstep::jit
