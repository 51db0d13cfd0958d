// An optimizer's archive in other formats, without the program that trains.
#pragma once

#include <jitstep/jit/formats.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jitstep::tool::convert {

/// The files and the new formats.
struct Request {
  std::string from, to;       // files
  std::string rule = {};      // of a checkpoint that names none
  jit::Formats formats = {};  // a format that is not set stays as it was saved
  bool overwrite = false;     // `to` may exist
};

/// A slot, or what is kept beside the parameters, of all parameters where the formats are the same; "": not kept.
struct Part {
  std::string what, from, to;
  int parameters = 0;
};

/// What became of an archive.
struct Conversion {
  std::vector<std::string> rules;  // one, or one of each group
  std::vector<Part> parts;
  int parameters = 0, with_state = 0;
  std::int64_t elements = 0;                             // of those with state
  std::int64_t state_bytes_before = 0, state_bytes = 0;  // as tensors in memory
};

/// Reads a file and writes another, whole or not at all: what an optimizer would save that was made with the archive's
/// options and these formats and has loaded the archive. A c10::Error or jit::Error says what is wrong; then nothing was
/// written. Takes memory for both states.
Conversion convert(const Request& request);

}  // namespace jitstep::tool::convert
