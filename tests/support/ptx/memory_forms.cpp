// Loads, stores and address conversions.
#include "support/ptx/decoder.h"
#include "support/ptx/elementwise.h"

namespace jitstep::ptx {
namespace {

struct SpaceName {
  const char* name;
  Space space;
};

constexpr SpaceName kSpaces[] = {{"", Space::generic},
                                 {".global", Space::global},
                                 {".shared", Space::shared},
                                 {".local", Space::local},
                                 {".param", Space::param}};

// Reads the addresses of lanes, and counts their sectors in global memory.
void read_addresses(Warp& warp, const Instruction& i, Mask lanes, RegOffset base, bool write,
                    std::uint64_t* addresses) {
  const auto* const bases = warp.values<const std::uint64_t>(base);
  for_lanes(lanes, [&](int lane) {
    addresses[lane] = bases[lane] + static_cast<std::uint64_t>(i.offset);
  });
  const std::uint64_t first = addresses[std::countr_zero(lanes)];
  if (i.space == Space::global ||
      (i.space == Space::generic && first >= window(Space::call) + kWindow))
    warp.count_sectors(addresses, lanes, write);
}

void run_load(Warp& warp, const Instruction& i, Mask lanes) {
  std::uint64_t addresses[kLanes];
  read_addresses(warp, i, lanes, i.at[4], false, addresses);
  std::byte* to[4];
  for (std::size_t k = 0; k < i.parts; ++k) to[k] = warp.values<std::byte>(i.at[k]);
  for_lanes(lanes, [&](int lane) {
    const std::byte* from = warp.touch(i.space, addresses[lane], i, lane, false);
    for (std::size_t k = 0; k < i.parts; ++k, from += i.bytes) {
      std::uint64_t value = 0;
      std::memcpy(&value, from, i.bytes);
      const int unused = 64 - 8 * i.bytes;
      if (i.sign)
        value = static_cast<std::uint64_t>(static_cast<std::int64_t>(value << unused) >> unused);
      std::memcpy(to[k] + static_cast<std::size_t>(lane) * i.to, &value, i.to);
    }
  });
}

void run_store(Warp& warp, const Instruction& i, Mask lanes) {
  std::uint64_t addresses[kLanes];
  read_addresses(warp, i, lanes, i.at[4], true, addresses);
  const std::byte* from[4];
  for (std::size_t k = 0; k < i.parts; ++k) from[k] = warp.values<std::byte>(i.at[k]);
  for_lanes(lanes, [&](int lane) {
    std::byte* to = warp.touch(i.space, addresses[lane], i, lane, true);
    for (std::size_t k = 0; k < i.parts; ++k, to += i.bytes)
      std::memcpy(to, from[k] + static_cast<std::size_t>(lane) * i.from, i.bytes);
  });
}

// The registers of a vector, or a single register.
std::vector<Operand> parts_of(Decoder& decoder, const Operand& operand, int wanted) {
  const std::vector<Operand> parts =
      operand.kind == Operand::Kind::list ? operand.parts : std::vector{operand};
  if (static_cast<int>(parts.size()) != wanted)
    decoder.refuse("a vector of " + std::to_string(wanted) + " was expected");
  return parts;
}

void read_access(Decoder& decoder, const Form& form, const Statement& statement, Instruction& i,
                 std::size_t values, bool load) {
  if (statement.operands.size() != 2) decoder.refuse(statement.opcode + " takes 2 operands");
  i.space = form.space;
  i.parts = static_cast<std::uint8_t>(form.parts);
  i.bytes = static_cast<std::uint8_t>(form.bytes);
  i.sign = form.sign;
  i.constant_memory = form.constant_memory;
  decoder.address(statement.operands[1 - values], i, i.at[4]);
  int bits = 0;
  std::size_t k = 0;
  for (const Operand& part : parts_of(decoder, statement.operands[values], form.parts)) {
    const bool number = !load && part.kind == Operand::Kind::number;
    // Numbers have the width of the other registers.
    const Register own = number ? Register{decoder.source(part, std::max(8 * form.bytes, 16)),
                                           std::max(8 * form.bytes, 16)}
                                : decoder.any(part);
    if (own.bits < 8 * form.bytes || (bits != 0 && own.bits != bits))
      decoder.refuse("the registers do not suit " + statement.opcode);
    bits = own.bits;
    i.at[k++] = own.offset;
  }
  i.to = i.from = static_cast<std::uint8_t>(bits / 8);
}

void read_load(Decoder& decoder, const Form& form, const Statement& statement, Instruction& i) {
  read_access(decoder, form, statement, i, 0, true);
}

void read_store(Decoder& decoder, const Form& form, const Statement& statement, Instruction& i) {
  read_access(decoder, form, statement, i, 1, false);
}

void add_accesses(Forms& forms, const std::string& load, const std::string& store, Space space) {
  for (const int bytes : {1, 2, 4, 8})
    for (const char letter : {'b', 'u', 's', 'f'})
      for (const int parts : {1, 2, 4}) {
        if ((letter == 'f' && bytes < 4) || bytes * parts > 16) continue;
        const std::string type = (parts == 1 ? "." : ".v" + std::to_string(parts) + ".") +
                                 (letter + std::to_string(8 * bytes));
        const Form form{.space = space, .parts = parts, .bytes = bytes, .sign = letter == 's'};
        Form reads = form, writes = form;
        reads.run = run_load;
        reads.read = read_load;
        reads.constant_memory = load.ends_with(".nc");
        writes.run = run_store;
        writes.read = read_store;
        forms[load + type] = reads;
        if (!store.empty()) forms[store + type] = writes;
      }
}

// Addresses within a space and generic addresses differ by the space's window.
template <bool kToSpace>
void run_convert(Warp& warp, const Instruction& i, Mask lanes) {
  auto* const to = warp.values<std::uint64_t>(i.at[0]);
  const auto* const from = warp.values<const std::uint64_t>(i.at[1]);
  const Address shift = window(i.space);
  for_lanes(lanes,
            [&](int lane) { to[lane] = kToSpace ? from[lane] - shift : from[lane] + shift; });
}

void read_convert(Decoder& decoder, const Form& form, const Statement& statement, Instruction& i) {
  if (statement.operands.size() != 2) decoder.refuse("cvta takes 2 operands");
  i.space = form.space;
  i.at[0] = decoder.result(statement.operands[0], 64);
  i.at[1] = decoder.source(statement.operands[1], 64);
}

}  // namespace

void add_memory_forms(Forms& forms) {
  for (const auto& [name, space] : kSpaces) {
    add_accesses(forms, std::string("ld") + name, std::string("st") + name, space);
    if (space == Space::generic || space == Space::param) continue;
    forms[std::string("cvta") + name + ".u64"] = {
        .run = run_convert<false>, .read = read_convert, .space = space};
    forms[std::string("cvta.to") + name + ".u64"] = {
        .run = run_convert<true>, .read = read_convert, .space = space};
  }
  add_accesses(forms, "ld.global.nc", "", Space::global);
}

}  // namespace jitstep::ptx
