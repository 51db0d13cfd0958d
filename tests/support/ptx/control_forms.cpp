// Branches, calls, barriers and shuffles.
#include <algorithm>

#include "support/ptx/decoder.h"
#include "support/ptx/elementwise.h"

namespace jitstep::ptx {
namespace {

// ---- branches and calls -------------------------------------------------------------------------

void run_branch(Warp& warp, const Instruction& i, Mask lanes) { warp.jump(lanes, i.target); }

void read_branch(Decoder& decoder, const Form&, const Statement& statement, Instruction&) {
  if (statement.operands.size() != 1) decoder.refuse("a label was expected");
  decoder.branch(statement.operands[0]);
}

void run_call(Warp& warp, const Instruction& i, Mask lanes) {
  const Program& program = warp.block().program;
  const Call& call = program.calls[i.target];
  const Function& function = program.functions[call.function];
  auto* const back = warp.values<std::uint32_t>(function.return_to);
  for_lanes(lanes, [&](int lane) { back[lane] = warp.pc(); });
  warp.copy_params(call.in, lanes);
  warp.jump(lanes, function.begin);
}

void read_call(Decoder& decoder, const Form&, const Statement& statement, Instruction& i) {
  decoder.call(statement, i);
  i.is_call = true;
}

// Lanes that return together may have different callers.
void run_return(Warp& warp, const Instruction& i, Mask lanes) {
  if (i.at[0] == kNoRegister) return warp.leave(lanes);
  const auto* const back = warp.values<const std::uint32_t>(i.at[0]);
  const Program& program = warp.block().program;
  for (Mask rest = lanes; rest != 0;) {
    const std::uint32_t from = back[std::countr_zero(rest)];
    Mask some = 0;
    for_lanes(rest, [&](int lane) { some |= Mask{back[lane] == from} << lane; });
    warp.copy_params(program.calls[program.code[from].target].out, some);
    warp.jump(some, from + 1);
    rest &= ~some;
  }
}

void read_return(Decoder& decoder, const Form&, const Statement& statement, Instruction& i) {
  if (!statement.operands.empty()) decoder.refuse("ret takes no operands");
  const Register* const back = decoder.find_register(kReturnTo);
  i.at[0] = back != nullptr ? back->offset : kNoRegister;
}

// ---- barriers -----------------------------------------------------------------------------------

void run_block_barrier(Warp& warp, const Instruction&, Mask lanes) { warp.wait(lanes); }

void read_block_barrier(Decoder& decoder, const Form&, const Statement& statement, Instruction& i) {
  const auto& operands = statement.operands;
  if (operands.size() != 1 || operands[0].kind != Operand::Kind::number || operands[0].bits != 0)
    decoder.refuse("only the barrier 0 of all threads is known");
  i.block_barrier = true;
}

// The lanes that an operand names. All executing lanes must name the same ones.
Mask named(Warp& warp, RegOffset reg, Mask lanes) {
  const auto* const masks = warp.values<const Mask>(reg);
  const Mask first = masks[std::countr_zero(lanes)];
  for_lanes(lanes, [&](int lane) {
    if (masks[lane] != first)
      throw Fault{kLaunchFailed, "its lanes name different lanes to wait for"};
  });
  return first;
}

void run_warp_barrier(Warp& warp, const Instruction& i, Mask lanes) {
  const Mask all = named(warp, i.at[0], lanes);
  if (!warp.gather(lanes, all)) return;
  // The memory order is tracked for whole warps only.
  if (all != warp.live()) throw Fault{kLaunchFailed, "a barrier of a part of a warp is not known"};
  warp.synchronize();
}

void read_warp_barrier(Decoder& decoder, const Form&, const Statement& statement, Instruction& i) {
  if (statement.operands.size() != 1) decoder.refuse("bar.warp.sync takes a mask");
  i.at[0] = decoder.source(statement.operands[0], 32);
}

// ---- shuffles -----------------------------------------------------------------------------------

// The lane that each lane reads, by the manual's definition. Lanes are in segments, and a lane that would read beyond
// its segment reads itself.
struct Source {
  int lane;
  bool inside;
};

template <char kMode>
Source source_of(int lane, std::uint32_t b, std::uint32_t c) {
  const int by = static_cast<int>(b & 31), clamp = static_cast<int>(c & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int last = (lane & segment) | (clamp & ~segment), first = lane & segment;
  if constexpr (kMode == 'u') return {lane - by, lane - by >= last};
  if constexpr (kMode == 'd') return {lane + by, lane + by <= last};
  if constexpr (kMode == 'b') return {lane ^ by, (lane ^ by) <= last};
  return {first | (by & ~segment), (first | (by & ~segment)) <= last};
}

template <char kMode>
void run_shuffle(Warp& warp, const Instruction& i, Mask lanes) {
  const Mask all = named(warp, i.at[5], lanes);
  if (!warp.gather(lanes, all)) return;
  const auto* const from = warp.values<const std::uint32_t>(i.at[2]);
  const auto* const b = warp.values<const std::uint32_t>(i.at[3]);
  const auto* const c = warp.values<const std::uint32_t>(i.at[4]);
  std::array<std::uint32_t, kLanes> read{};
  Mask inside = 0;
  for_lanes(all, [&](int lane) {
    Source source = source_of<kMode>(lane, b[lane], c[lane]);
    if (!source.inside) source.lane = lane;
    if ((all >> source.lane & 1) == 0)
      throw Fault{kLaunchFailed, "lane " + std::to_string(lane) + " reads lane " +
                                     std::to_string(source.lane) + ", which it does not name"};
    inside |= Mask{source.inside} << lane;
    read[static_cast<std::size_t>(lane)] = from[source.lane];
  });
  auto* const to = warp.values<std::uint32_t>(i.at[0]);
  for_lanes(all, [&](int lane) { to[lane] = read[static_cast<std::size_t>(lane)]; });
  if (i.at[1] == kNoRegister) return;
  Mask& predicate = *warp.values<Mask>(i.at[1]);
  predicate = (predicate & ~all) | inside;
}

void read_shuffle(Decoder& decoder, const Form&, const Statement& statement, Instruction& i) {
  const auto& operands = statement.operands;
  if (operands.size() != 5) decoder.refuse(statement.opcode + " takes 5 operands");
  const bool pair = operands[0].kind == Operand::Kind::list && operands[0].parts.size() == 2;
  i.at[0] = decoder.result(pair ? operands[0].parts[0] : operands[0], 32);
  i.at[1] = pair ? decoder.result(operands[0].parts[1], 1) : kNoRegister;
  for (std::size_t k = 1; k < 5; ++k) i.at[k + 1] = decoder.source(operands[k], 32);
}

template <class T, class F>
void add_redux(Forms& forms, const std::string& name, F) {
  forms["redux.sync." + name + "." + name_of<T>()] = {
      .run =
          [](Warp& warp, const Instruction& i, Mask lanes) {
            const Mask all = named(warp, i.at[2], lanes);
            if (!warp.gather(lanes, all)) return;
            const T* const from = warp.values<const T>(i.at[1]);
            T result = from[std::countr_zero(all)];
            for_lanes(all, [&](int lane) { result = F{}(result, from[lane]); });
            T* const to = warp.values<T>(i.at[0]);
            for_lanes(all, [&](int lane) { to[lane] = result; });
          },
      .bits = {32, 32, 32}};
}

}  // namespace

void add_control_forms(Forms& forms) {
  for (const char* name : {"bra", "bra.uni"})
    forms[name] = {.run = run_branch, .read = read_branch};
  for (const char* name : {"call", "call.uni"}) forms[name] = {.run = run_call, .read = read_call};
  forms["ret"] = {.run = run_return, .read = read_return};
  forms["bar.sync"] = {.run = run_block_barrier, .read = read_block_barrier};
  forms["bar.warp.sync"] = {.run = run_warp_barrier, .read = read_warp_barrier};
  forms["shfl.sync.up.b32"] = {.run = run_shuffle<'u'>, .read = read_shuffle};
  forms["shfl.sync.down.b32"] = {.run = run_shuffle<'d'>, .read = read_shuffle};
  forms["shfl.sync.bfly.b32"] = {.run = run_shuffle<'b'>, .read = read_shuffle};
  forms["shfl.sync.idx.b32"] = {.run = run_shuffle<'i'>, .read = read_shuffle};
  for_types<std::uint32_t, std::int32_t>([&](auto x) {
    using T = decltype(x);
    add_redux<T>(forms, "max", [](T a, T b) { return std::max(a, b); });
    add_redux<T>(forms, "min", [](T a, T b) { return std::min(a, b); });
  });
}

}  // namespace jitstep::ptx
