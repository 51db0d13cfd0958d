// Assembly of the CPU's kernels for people: as a compiler writes it, told by the lines of the templates.
#pragma once

#include <string>
#include <vector>

namespace jitstep::tool::inspect {

/// What one function of an assembly does with vector registers, in instructions.
struct FunctionCounts {
  std::string name;
  bool is_entry = false;  // else a part of one that was not inlined
  int instructions = 0;
  int wide[3] = {0, 0, 0};  // of whole vectors of 512, 256 and 128 bits
  int scalar = 0;           // of one floating-point number
  int stack_bytes = 0;      // of its frame, as far as instructions name it
};

/// In the order of the text. Knows x86-64 and aarch64, as g++ and clang++ write them.
std::vector<FunctionCounts> count_functions(const std::string& assembly);

/// The instructions, labels and tables alone, with `# rules/adamw.cuh:41: <the line>` where another line of a template
/// begins. `flat` is the text that was compiled.
std::string with_source_lines(const std::string& assembly, const std::string& preprocessed);

}  // namespace jitstep::tool::inspect
