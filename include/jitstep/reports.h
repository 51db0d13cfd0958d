// What an optimizer uses: the memory of its tensors, and its kernels with their source, resources and parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep {

/// A snapshot, made by Optimizer::memory_report(). Storage that tensors share counts once, for the first of them.
/// Gradients count if they are defined and strided. Copies in host memory of an offloaded optimizer are entries of
/// their own, with formats such as "float32 in host memory". It does not include kernels, their tables, the sums of a
/// GradAccumulator, or temporary memory of a step.
struct JITSTEP_API MemoryReport {
  /// What the tensors store. `state` is values or codes of slots, `scales` is metadata of codecs per block, `residual`
  /// is that of a weight format, and `aux_state` is all other state of rules and codecs.
  enum class Kind { parameters, gradients, state, scales, residual, aux_state };

  /// Tensors of one kind and format.
  struct Entry {
    Kind kind = Kind::parameters;
    std::string name;    // slot ("m") or auxiliary state ("row"); empty: neither, or several
    std::string format;  // a dtype ("bfloat16"), a codec ("int4") or a weight format ("split16")
    int tensors = 0;
    std::int64_t bytes = 0;
  };

  /// One parameter. Tensors that it does not have, such as state before its first step, have no entry.
  struct Parameter {
    std::size_t group = 0, index = 0;  // in its group
    std::vector<std::int64_t> sizes;
    std::int64_t elements = 0;
    std::string rule;
    bool has_state = false;
    std::vector<Entry> entries;

    /// Of all its entries.
    std::int64_t bytes() const;
  };

  std::vector<Parameter> parameters;  // group by group, each parameter once
  /// Tensors of no single parameter: shared state, and state whose parameter is in no group.
  std::vector<Entry> others;

  /// Entries of all parameters and `others`, summed by kind and format, in the order of Kind.
  std::vector<Entry> by_format() const;
  /// Of all parameters.
  std::int64_t elements() const;
  /// Of everything. State is everything except parameters and gradients.
  std::int64_t bytes() const;
  std::int64_t state_bytes() const;

  /// Two tables, by format and by parameter, each with bytes per element.
  std::string text() const;
  /// The same as one object: "elements", "bytes", "state_bytes", "formats", "parameters" and "others".
  std::string json() const;
};

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
