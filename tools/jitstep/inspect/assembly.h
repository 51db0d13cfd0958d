// Makes the assembly of CPU kernels readable: counts instructions, and adds the lines of the templates as comments.
#pragma once

#include <string>
#include <vector>

namespace jitstep::tool::inspect {

/// Instruction counts of one function.
struct FunctionCounts {
  std::string name;
  bool is_entry = false;  // else a function that was not inlined into an entry
  int instructions = 0;
  int wide[3] = {0, 0, 0};  // instructions on whole vectors of 512, 256 and 128 bits
  int scalar = 0;           // instructions on one floating-point number in a vector register
  int stack_bytes = 0;      // largest stack allocation with a constant size
};

/// Counts the instructions of each function, in the order of the text. Supports x86-64 and aarch64 assembly of g++ and
/// clang++.
std::vector<FunctionCounts> count_functions(const std::string& assembly);

/// Returns instructions, labels and tables only, with a comment `# rules/adamw.cuh:41: <the line>` where another source
/// line begins. `preprocessed` is the source that was compiled.
std::string with_source_lines(const std::string& assembly, const std::string& preprocessed);

}  // namespace jitstep::tool::inspect
