// Every operation that the machine knows, by its whole name as PTX writes it: "add.rn.f32".
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/ptx/program.h"

namespace jitstep::ptx {

class Decoder;
struct Form;

/// Reads a statement's operands into an instruction.
using Reader = void (*)(Decoder&, const Form&, const Statement&, Instruction&);

struct Form {
  Handler run = nullptr;
  Reader read = nullptr;         // null: operands by their bits
  std::vector<int> bits = {};    // of the operands, the result first; 1: a predicate
  Space space = Space::generic;  // of loads and stores, and of conversions of addresses
  int parts = 1, bytes = 0;      // of loads and stores
  bool sign = false, constant_memory = false;
};

using Forms = std::map<std::string, Form, std::less<>>;

/// All of them. What is not here is refused, such as "add.f32", which a compiler may contract.
const Forms& forms();

// Each adds its own.
void add_integer_forms(Forms& forms);
void add_real_forms(Forms& forms);
void add_comparisons(Forms& forms);
void add_conversions(Forms& forms);
void add_moves(Forms& forms);
void add_memory_forms(Forms& forms);
void add_control_forms(Forms& forms);

}  // namespace jitstep::ptx
