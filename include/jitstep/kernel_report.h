// A kernel that an optimizer uses: what it was made of, what it takes, whose steps it takes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep {

/// Made by Optimizer::kernels(). Stays as it is, whatever becomes of the optimizer.
struct JITSTEP_API KernelReport {
  /// One of the parameters that share the kernel.
  struct Parameter {
    std::size_t group = 0, index = 0;  // in its group
  };

  std::string device;     // "cpu", "cuda:0"
  jit::ConfigChoice how;  // it is run, and why so
  std::vector<Parameter> parameters;
  std::shared_ptr<const jit::Built> built;

  /// Readable, such as "adamw_int8_float32".
  const std::string& name() const { return built->name; }
  const jit::Target& target() const { return built->target; }
  /// Registers and the like of each entry; of a GPU's kernels alone.
  const std::vector<jit::Resources>& resources() const { return built->binary.resources; }
  /// The unit's few lines, and the self-contained text that the compiler was given.
  const std::string& unit() const { return built->unit; }
  const std::string& source() const { return *built->text; }
  /// An ELF shared object, a cubin or PTX.
  const std::vector<std::byte>& binary() const { return built->binary.image; }

  /// A few lines with all but texts and binary.
  std::string text() const;
};

/// Writes the kernels into a file that `jitstep cache warm --kernels FILE` compiles, on this machine or another:
/// a program's own, with what its options and gradients make of them. A c10::Error if it cannot be written.
JITSTEP_API void write_kernels(const std::vector<KernelReport>& kernels, const std::string& file);

}  // namespace jitstep
