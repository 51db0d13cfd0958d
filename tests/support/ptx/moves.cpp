// Moves values between registers, whole or in parts.
#include "support/ptx/decoder.h"
#include "support/ptx/elementwise.h"

namespace jitstep::ptx {
namespace {

bool is_list(const Statement& statement, std::size_t operand) {
  return statement.operands[operand].kind == Operand::Kind::list;
}

// Splits a register into parts or joins them, lowest part first. `from` and `to` are widths in bytes.
template <bool kTakesApart>
void run_parts(Warp& warp, const Instruction& i, Mask lanes) {
  const std::size_t part = i.bytes, whole = part * i.parts;
  for (std::size_t k = 0; k < i.parts; ++k) {
    std::byte* const small = warp.values<std::byte>(i.at[k + 1]);
    std::byte* const large = warp.values<std::byte>(i.at[0]) + k * part;
    for_lanes(lanes, [&](int lane) {
      const auto n = static_cast<std::size_t>(lane);
      if constexpr (kTakesApart)
        std::memcpy(small + n * part, large + n * whole, part);
      else
        std::memcpy(large + n * whole, small + n * part, part);
    });
  }
}

template <class T>
void run_move(Warp& warp, const Instruction& i, Mask lanes) {
  T* const to = warp.values<T>(i.at[0]);
  const T* const from = warp.values<T>(i.at[1]);
  for_lanes(lanes, [&](int lane) { to[lane] = from[lane]; });
}

void read_parts(Decoder& decoder, const Statement& statement, int bits, Instruction& i) {
  const bool apart = is_list(statement, 0);
  const auto& parts = statement.operands[apart ? 0 : 1].parts;
  if (parts.empty() || parts.size() > 4 || bits % static_cast<int>(parts.size()) != 0)
    decoder.refuse("such a list of registers is not known");
  const int part = bits / static_cast<int>(parts.size());
  i.at[0] = apart ? decoder.source(statement.operands[1], bits)
                  : decoder.result(statement.operands[0], bits);
  for (std::size_t k = 0; k < parts.size(); ++k)
    i.at[k + 1] = apart ? decoder.result(parts[k], part) : decoder.source(parts[k], part);
  i.parts = static_cast<std::uint8_t>(parts.size());
  i.bytes = static_cast<std::uint8_t>(part / 8);
  i.run = apart ? run_parts<true> : run_parts<false>;
}

void read_move(Decoder& decoder, const Form& form, const Statement& statement, Instruction& i) {
  if (statement.operands.size() != 2) decoder.refuse("mov takes 2 operands");
  if (is_list(statement, 0) || is_list(statement, 1))
    return read_parts(decoder, statement, form.bits[0], i);
  i.at[0] = decoder.result(statement.operands[0], form.bits[0]);
  i.at[1] = decoder.source(statement.operands[1], form.bits[0]);
}

template <class T>
void add_move(Forms& forms, const std::string& letters) {
  for (const char letter : letters)
    forms[std::string("mov.") + letter + std::to_string(8 * sizeof(T))] = {
        .run = run_move<T>, .read = read_move, .bits = {kBits<T>}};
}

}  // namespace

void add_moves(Forms& forms) {
  add_move<std::uint16_t>(forms, "bus");
  add_move<std::uint32_t>(forms, "busf");
  add_move<std::uint64_t>(forms, "busf");
  add_elementwise<bool, bool>(forms, "mov.pred", [](bool a) { return a; });
}

}  // namespace jitstep::ptx
