// A decoded PTX module: an array of instructions whose operands are offsets into a warp's registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/ptx/text.h"

namespace jitstep::ptx {

using Address = std::uint64_t;
using Mask = std::uint32_t;  // one bit per lane of a warp
inline constexpr int kLanes = 32;
inline constexpr Mask kAllLanes = ~Mask{0};

class Warp;
struct Instruction;
/// Executes an instruction for the lanes of a mask. The mask is not empty.
using Handler = void (*)(Warp&, const Instruction&, Mask);

/// Offset of one register's values of 32 lanes, which are contiguous. A predicate is a Mask. The highest bit marks a
/// constant, which all warps share.
using RegOffset = std::uint32_t;
inline constexpr RegOffset kConstant = RegOffset{1} << 31;
inline constexpr RegOffset kNoRegister = ~RegOffset{0};

/// The address space of a variable or an address.
enum class Space : std::uint8_t { generic, global, shared, local, param, call };

/// Size of an address window. Every space but `global` has its window, which distinguishes generic addresses. `param`
/// is a kernel's parameter space, and `call` that of a function, for each lane.
inline constexpr Address kWindow = Address{1} << 40;
constexpr Address window(Space space) {
  return space == Space::generic || space == Space::global
             ? 0
             : kWindow * static_cast<Address>(static_cast<int>(space));
}

/// Values that exist before the first instruction.
enum Special : RegOffset { kTid, kLane, kBlockSize, kBlock, kGrid, kZero, kOne, kSpecials };
inline constexpr RegOffset kRegisterBytes = kLanes * 8;  // of the widest register

struct Instruction {
  Handler run = nullptr;
  RegOffset guard = kNoRegister;
  bool negated = false;
  Space space = Space::generic;
  std::uint8_t parts = 1;         // elements of a vector
  std::uint8_t bytes = 0;         // per element in memory
  std::uint8_t to = 0, from = 0;  // bytes of the destination and source registers
  bool sign = false;              // loads extend the sign
  bool constant_memory = false;   // ld.global.nc: the launch must not write this memory
  bool is_call = false;
  bool block_barrier = false;  // all lanes of the block wait for each other
  int line = 0;
  std::array<RegOffset, 6> at = {};  // operands, results first
  std::int64_t offset = 0;           // of an address
  std::uint32_t target = 0;          // of a branch; of a call: its number
};

/// Bytes that a call copies between arguments and parameters.
struct Copy {
  std::uint32_t to = 0, from = 0, bytes = 0;
};
struct Call {
  std::string name;
  std::uint32_t function = 0;
  std::vector<Copy> in = {}, out = {};
};

struct Function {
  std::string name;
  bool entry = false;
  bool declared = false, defined = false;
  std::uint32_t begin = 0, end = 0;            // range of its instructions
  RegOffset return_to = 0;                     // return addresses, one uint32 per lane
  std::uint32_t threads = 0;                   // maximum by .maxntid; 0: none
  std::vector<Copy> params = {}, result = {};  // `from`: offset among all parameters
  std::uint32_t param_bytes = 0;               // of an entry
};

/// The bytes from `begin` up to `end`, exclusive.
struct Range {
  std::uint32_t begin = 0, end = 0;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<Function> functions;
  std::vector<Call> calls;
  std::vector<std::string> lines;              // the source, for messages
  std::vector<std::byte> constants;            // values of constant operands
  std::uint32_t register_bytes = 0;            // per warp
  std::uint32_t call_bytes = 0;                // for a lane's call parameters
  std::uint32_t local_bytes = 0;               // of a lane's local memory
  std::vector<Range> shared;                   // variables in shared memory, with gaps between them
  std::string target;                          // "sm_90"
  std::map<std::string, std::uint64_t> forms;  // number of uses of each operation

  /// The entry of that name. Null if there is none.
  const Function* entry(std::string_view name) const;
};

/// 90 for "sm_90". 0 for a target of another form.
int architecture(const Program& program);

/// Copies the module's variables into a device's memory and returns the image's address. Bytes of the image between the
/// variables must stay unwritten, so that the interpreter detects reads beyond a variable's end.
using PlaceGlobals = std::function<Address(const std::vector<std::byte>& image,
                                           const std::vector<Range>& variables)>;

/// Decodes a module. A PtxError names the line and the unknown part.
Program read_program(const std::string& text, const PlaceGlobals& place_globals);

}  // namespace jitstep::ptx
