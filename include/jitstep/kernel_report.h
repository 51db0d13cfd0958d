// A kernel that an optimizer uses: its source, its resources and its parameters.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep {

/// Made by Optimizer::kernels(). Later changes of the optimizer do not change it.
struct JITSTEP_API KernelReport {
  /// One of the parameters that share the kernel.
  struct Parameter {
    std::size_t group = 0, index = 0;  // in its group
  };

  std::string device;     // "cpu", "cuda:0"
  jit::ConfigChoice how;  // its configuration, and the reason for it
  std::vector<Parameter> parameters;
  std::shared_ptr<const jit::Built> built;

  /// A readable name, such as "adamw_int8_float32".
  const std::string& name() const { return built->name; }
  const jit::Target& target() const { return built->target; }
  /// Registers, spills and other resources of each entry. Empty except for GPU kernels.
  const std::vector<jit::Resources>& resources() const { return built->binary.resources; }
  /// The generated translation unit, and the preprocessed source that the compiler got.
  const std::string& unit() const { return built->unit; }
  const std::string& source() const { return *built->text; }
  /// An ELF shared object, a cubin or PTX.
  const std::vector<std::byte>& binary() const { return built->binary.image; }

  /// A few lines with everything except sources and binary.
  std::string text() const;
};

/// Writes the kernels into a file for `jitstep cache warm --kernels FILE`, which compiles them on this machine or on
/// another one. They have the program's own options and gradient formats. Throws a c10::Error if the file cannot be
/// written.
JITSTEP_API void write_kernels(const std::vector<KernelReport>& kernels, const std::string& file);

}  // namespace jitstep
