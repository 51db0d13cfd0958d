// Memory of an optimizer's tensors, measured from the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep {

/// A snapshot, made by Optimizer::memory_report(). Storage that tensors share counts once, for the first of them.
/// Gradients count if they are defined and strided. It does not include kernels, their tables, the sums of a
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

}  // namespace jitstep
