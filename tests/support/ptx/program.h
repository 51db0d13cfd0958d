// A PTX module, decoded once: an array of instructions whose operands are places in a warp's registers.
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
using Mask = std::uint32_t;  // a bit for each lane of a warp
inline constexpr int kLanes = 32;
inline constexpr Mask kAllLanes = ~Mask{0};

class Warp;
struct Instruction;
/// Runs an instruction for the lanes of a mask, which is not empty.
using Handler = void (*)(Warp&, const Instruction&, Mask);

/// Where 32 lanes' values of one register lie, one after the other; a predicate is a Mask. The highest bit says
/// that it is a constant, which all warps share.
using Place = std::uint32_t;
inline constexpr Place kConstant = Place{1} << 31;
inline constexpr Place kNoPlace = ~Place{0};

/// What a variable or an address lies in.
enum class Space : std::uint8_t { generic, global, shared, local, param, call };

/// A place in memory. Spaces but `global` have windows, by which generic addresses are told apart; `param` is a
/// kernel's parameter, `call` a function's, of a lane's own.
inline constexpr Address kWindow = Address{1} << 40;
constexpr Address window(Space space) {
  return space == Space::generic || space == Space::global
             ? 0
             : kWindow * static_cast<Address>(static_cast<int>(space));
}

/// Values that a warp has before the first instruction.
enum Special : Place { kTid, kLane, kBlockSize, kBlock, kGrid, kZero, kOne, kSpecials };
inline constexpr Place kRegisterBytes = kLanes * 8;  // of the widest register

struct Instruction {
  Handler run = nullptr;
  Place guard = kNoPlace;
  bool negated = false;
  Space space = Space::generic;
  std::uint8_t parts = 1;         // elements of a vector
  std::uint8_t bytes = 0;         // of one element in memory
  std::uint8_t to = 0, from = 0;  // bytes of the registers that are written and read
  bool sign = false;              // what is loaded is extended by its sign
  bool constant_memory = false;   // ld.global.nc: nobody may write it meanwhile
  bool is_call = false;
  bool block_barrier = false;  // all lanes of the block wait for each other
  int line = 0;
  std::array<Place, 6> at = {};  // operands, the results first
  std::int64_t offset = 0;       // of an address
  std::uint32_t target = 0;      // of a branch; a call's number
};

/// Bytes that a call copies between the parameters of its two sides.
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
  std::uint32_t begin = 0, end = 0;            // its instructions
  Place return_to = 0;                         // where a call goes on, one uint32 a lane
  std::uint32_t threads = 0;                   // at most, by .maxntid; 0: not said
  std::vector<Copy> params = {}, result = {};  // `from`: where they lie among all parameters
  std::uint32_t param_bytes = 0;               // of an entry's
};

/// Bytes from `begin` on, below `end`.
struct Range {
  std::uint32_t begin = 0, end = 0;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<Function> functions;
  std::vector<Call> calls;
  std::vector<std::string> lines;    // the text, for messages
  std::vector<std::byte> constants;  // what constant places name
  std::uint32_t register_bytes = 0;  // of a warp
  std::uint32_t call_bytes = 0;      // of a lane's parameters of calls
  std::uint32_t local_bytes = 0;     // of a lane's local memory
  std::vector<Range> shared;         // its variables in shared memory, with gaps between them
  std::string target;                // "sm_90"
  std::map<std::string, std::uint64_t> forms;  // how often each operation is written

  /// The entry of that name; null if there is none.
  const Function* entry(std::string_view name) const;
};

/// Puts the module's variables, these bytes, into a device's memory and says where.
using PlaceGlobals = std::function<Address(const std::vector<std::byte>& image)>;

/// Decodes a text. A PtxError names the line and what is not known.
Program read_program(const std::string& text, const PlaceGlobals& place_globals);

}  // namespace jitstep::ptx
