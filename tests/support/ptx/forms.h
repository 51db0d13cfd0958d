// Every operation of the PTX interpreter, by its full PTX name, such as "add.rn.f32". NVRTC 13 uses about 240 of them
// for this library's kernels.
//
//   operations                                                                  tested by, in tests/ptx
//   add sub mul.lo mul.hi mul.wide mad.lo div rem min max neg abs and or xor    integer_cases.cpp, forms_test.cpp
//   not shl shr popc clz bfe bfi prmt lop3 shf, of 16 to 64 bits and predicates
//   mov selp                                                                    integer_cases.cpp
//   add sub mul fma div rcp sqrt .rn, abs neg min max, of f32 and f64           real_cases.cpp
//   setp, ordered and not, of integers, bits, f32 and f64                       real_cases.cpp
//   cvt between integers, .rn and .rzi to and from f32 and f64, .sat, 16 bits   real_cases.cpp
//   mov of parts: {%rs1, %rs2}                                                  lanes_test.cpp
//   ld st cvta, scalars to v4, of every space; ld.global.nc                     memory_test.cpp
//   bra call ret bar.sync bar.warp.sync shfl.sync redux.sync                    lanes_test.cpp
//
// forms_test.cpp checks that every operation has a test.
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

/// Decodes a statement's operands into an instruction.
using Reader = void (*)(Decoder&, const Form&, const Statement&, Instruction&);

struct Form {
  Handler run = nullptr;
  Reader read = nullptr;         // null: operands by their widths
  std::vector<int> bits = {};    // widths of operands, result first; 1: a predicate
  Space space = Space::generic;  // of loads, stores and address conversions
  int parts = 1, bytes = 0;      // of loads and stores
  bool sign = false, constant_memory = false;
};

using Forms = std::map<std::string, Form, std::less<>>;

/// All operations. Others are an error, such as "add.f32", which a compiler may contract.
const Forms& forms();

// Each function adds its own operations.
void add_integer_forms(Forms& forms);
void add_real_forms(Forms& forms);
void add_comparisons(Forms& forms);
void add_conversions(Forms& forms);
void add_moves(Forms& forms);
void add_memory_forms(Forms& forms);
void add_control_forms(Forms& forms);

}  // namespace jitstep::ptx
