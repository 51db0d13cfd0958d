// Converts an optimizer's checkpoint to other formats, without the training program.
#pragma once

#include <jitstep/jit/plan.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jitstep::tool::convert {

/// The files and the new formats.
struct Request {
  std::string from, to;       // files, or folders of Optimizer::save_parts()
  std::string rule = {};      // for a checkpoint that names none
  jit::Formats formats = {};  // a format that is not set stays as saved
  int ranks = 0;              // of parts in a folder `to`; 0: `to` is a file
  bool overwrite = false;     // `to` may exist
};

/// A slot or the weight residual, for all parameters with the same two formats. "": not stored.
struct Entry {
  std::string what, from, to;
  int parameters = 0;
};

/// The report of a conversion.
struct Conversion {
  std::vector<std::string> rules;  // one for all groups, or one per group
  std::vector<Entry> entries;
  int parameters = 0, with_state = 0;
  std::int64_t elements = 0;                             // of parameters with state
  std::int64_t state_bytes_before = 0, state_bytes = 0;  // of the tensors in memory
};

/// Reads a checkpoint and writes another one, completely or not at all. The new file is what an optimizer with the
/// checkpoint's options and these formats would save after it loaded the checkpoint. If it throws a c10::Error or a
/// jit::Error, nothing was written. Needs memory for both states.
Conversion convert(const Request& request);

}  // namespace jitstep::tool::convert
