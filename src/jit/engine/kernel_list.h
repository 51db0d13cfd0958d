// Kernels as a file of texts, which another process compiles. A file of code: only its owner may write to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"

namespace jitstep::jit {

/// A kernel as a file names it. `source` is self-contained; `unit` includes templates by their names.
struct KernelText {
  std::string name;
  Target target;
  std::string unit, source;
};

/// Writes a line of JSON for each of the kernels, each of them once. An Error if the file cannot be written.
JITSTEP_API void write_kernel_list(const std::vector<std::shared_ptr<const Built>>& kernels,
                                   const std::string& file);

/// Reads such a file. An Error with its line if it is something else, or may be written by others.
JITSTEP_API std::vector<KernelText> read_kernel_list(const std::string& file);

}  // namespace jitstep::jit
