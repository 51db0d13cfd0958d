// What an optimizer's tensors take in memory, measured from the tensors themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep {

/// Made by Optimizer::memory_report(), of the moment when it was made. Memory that tensors share counts once, where it
/// is met first. Gradients count where they are defined and strided. Kernels, their tables, a GradAccumulator's sums and
/// what a step allocates for its own time do not count.
struct JITSTEP_API MemoryReport {
  /// What tensors hold: a slot's values or codes, what codecs keep for blocks of these, what a weight format keeps
  /// beside parameters, and what rules and codecs keep otherwise.
  enum class Kind { parameters, gradients, state, scales, residual, aux_state };

  /// Tensors of one kind and format.
  struct Entry {
    Kind kind = Kind::parameters;
    std::string
        name;  // of a slot ("m") or a field of memory ("row"); empty: of neither, or of several
    std::string format;  // a dtype ("bfloat16"), a codec ("int4") or a weight format ("split16")
    int tensors = 0;
    std::int64_t bytes = 0;
  };

  /// One parameter. Whatever it does not have, such as state before its first step, has no part.
  struct Parameter {
    std::size_t group = 0, index = 0;  // in its group
    std::vector<std::int64_t> sizes;
    std::int64_t elements = 0;
    std::string rule;
    bool has_state = false;
    std::vector<Entry> entries;

    /// Of all its parts.
    std::int64_t bytes() const;
  };

  std::vector<Parameter> parameters;  // group by group; one that is listed again is not repeated
  /// What belongs to no single parameter: what a rule keeps once, and state whose parameter is in no group.
  std::vector<Entry> others;

  /// The parts of all parameters and the others, those of one kind and format together, in the order of kinds.
  std::vector<Entry> by_format() const;
  /// Of all parameters.
  std::int64_t elements() const;
  /// Of everything; state is what is neither parameter nor gradient.
  std::int64_t bytes() const;
  std::int64_t state_bytes() const;

  /// Two tables, by format and by parameter, each with bytes for each element.
  std::string text() const;
  /// The same as one object: "elements", "bytes", "state_bytes", "formats", "parameters" and "others".
  std::string json() const;
};

}  // namespace jitstep
