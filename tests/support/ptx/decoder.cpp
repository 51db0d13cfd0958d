#include "support/ptx/decoder.h"

#include <algorithm>
#include <cstring>

namespace jitstep::ptx {
namespace {

struct SpecialName {
  const char* name;
  Special special;
};

constexpr SpecialName kSpecialNames[] = {
    {"%tid.x", kTid},    {"%ntid.x", kBlockSize}, {"%ctaid.x", kBlock}, {"%nctaid.x", kGrid},
    {"%laneid", kLane},  {"%tid.y", kZero},       {"%tid.z", kZero},    {"%ntid.y", kOne},
    {"%ntid.z", kOne},   {"%ctaid.y", kZero},     {"%ctaid.z", kZero},  {"%nctaid.y", kOne},
    {"%nctaid.z", kOne},
};

// The first architecture with an operation, where it is above that of the oldest GPU that the project supports.
int least_architecture(const std::string& operation) {
  const auto has = [&](const char* part) { return operation.find(part) != operation.npos; };
  if (operation.starts_with("cvt") && (has("e4m3") || has("e5m2"))) return 89;
  if (operation.starts_with("redux") || (operation.starts_with("cvt") && has("bf16"))) return 80;
  return 0;
}

std::uint64_t low(std::uint64_t bits, int width) {
  return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

}  // namespace

// ---- names --------------------------------------------------------------------------------------

RegOffset Decoder::declare(const std::string& name, int bits) {
  const RegOffset reg = next_register_;
  scopes_.back().registers[name] = {reg, bits};
  // Predicates and narrow registers also start at whole vectors.
  next_register_ += bits == 64 ? kRegisterBytes : kRegisterBytes / 2;
  return reg;
}

void Decoder::declare(const std::string& name, const Variable& variable) {
  scopes_.back().variables[name] = variable;
}

void Decoder::declare_everywhere(const std::string& name, const Variable& variable) {
  scopes_.front().variables[name] = variable;
}

void Decoder::mark(const std::string& label, int line) {
  if (!labels_.emplace(label, static_cast<std::uint32_t>(program_.code.size())).second)
    throw PtxError(line, label + " is defined twice");
}

const Variable* Decoder::variable(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->variables.find(name); found != scope->variables.end())
      return &found->second;
  return nullptr;
}

const Register* Decoder::find_register(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->registers.find(name); found != scope->registers.end())
      return &found->second;
  return nullptr;
}

// ---- functions ----------------------------------------------------------------------------------

void Decoder::begin_function(RegOffset first_register) {
  open();
  next_register_ = first_register;
  labels_.clear();
  fixups_.clear();
}

RegOffset Decoder::end_function() {
  close();
  for (const Fixup& fixup : fixups_) {
    const auto found = labels_.find(fixup.label);
    if (found == labels_.end()) throw PtxError(fixup.line, "there is no label " + fixup.label);
    program_.code[fixup.instruction].target = found->second;
  }
  return next_register_;
}

std::uint32_t Decoder::function(const std::string& name) {
  auto& all = program_.functions;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Function& f) { return f.name == name; });
  const auto number = static_cast<std::uint32_t>(found - all.begin());
  if (found == all.end()) all.push_back({.name = name});
  return number;
}

// ---- statements ---------------------------------------------------------------------------------

void Decoder::decode(const Statement& statement) {
  line_ = statement.line;
  const auto form = forms().find(statement.opcode);
  if (form == forms().end()) refuse("the operation " + statement.opcode + " is not known");
  if (const int least = least_architecture(statement.opcode); architecture(program_) < least)
    refuse("the operation " + statement.opcode + " needs sm_" + std::to_string(least));
  ++program_.forms[statement.opcode];
  Instruction instruction;
  instruction.run = form->second.run;
  instruction.line = line_;
  instruction.negated = statement.negated;
  if (!statement.guard.empty())
    instruction.guard = source({.kind = Operand::Kind::word, .word = statement.guard}, 1);
  if (form->second.read != nullptr) {
    form->second.read(*this, form->second, statement, instruction);
  } else {
    const auto& bits = form->second.bits;
    if (statement.operands.size() != bits.size())
      refuse(statement.opcode + " takes " + std::to_string(bits.size()) + " operands");
    instruction.at[0] = result(statement.operands[0], bits[0]);
    for (std::size_t k = 1; k < bits.size(); ++k)
      instruction.at[k] = source(statement.operands[k], bits[k]);
  }
  program_.code.push_back(instruction);
}

RegOffset Decoder::constant(std::uint64_t bits, int width) {
  bits = low(bits, width == 1 ? 64 : width);
  const auto [known, added] = constants_.try_emplace({bits, width}, 0);
  if (!added) return known->second;
  std::vector<std::byte>& pool = program_.constants;
  known->second = static_cast<RegOffset>(pool.size()) | kConstant;
  const std::size_t bytes = static_cast<std::size_t>(std::max(width, 8)) / 8;
  pool.resize(pool.size() + kRegisterBytes);
  std::byte* const to = pool.data() + pool.size() - kRegisterBytes;
  const std::uint64_t lanes = bits != 0 ? ~std::uint64_t{0} : 0;
  if (width == 1) std::memcpy(to, &lanes, sizeof lanes);
  for (std::size_t lane = 0; width != 1 && lane < kLanes; ++lane)
    std::memcpy(to + lane * bytes, &bits, bytes);
  return known->second;
}

RegOffset Decoder::source(const Operand& operand, int bits) {
  if (operand.kind == Operand::Kind::number) {
    if (operand.digits != 0 && operand.digits != bits)
      refuse("a number of " + std::to_string(operand.digits) + " bits where " +
             std::to_string(bits) + " are wanted");
    return constant(operand.bits, bits);
  }
  if (operand.kind != Operand::Kind::word) refuse("a register or a number was expected");
  for (const auto& [name, special] : kSpecialNames)
    if (operand.word == name && bits == 32) return special * kRegisterBytes;
  if (const Variable* const named = variable(operand.word); named != nullptr && bits >= 32)
    return constant(named->address, bits);
  return result(operand, bits);
}

RegOffset Decoder::result(const Operand& operand, int bits) {
  if (operand.kind != Operand::Kind::word) refuse("a register was expected");
  const Register* const known = find_register(operand.word);
  if (known == nullptr) refuse("there is no " + operand.word);
  if (known->bits != bits)
    refuse(operand.word + " has " + std::to_string(known->bits) + " bits, where " +
           std::to_string(bits) + " are wanted");
  return known->offset;
}

Register Decoder::any(const Operand& operand) const {
  const Register* const known =
      operand.kind == Operand::Kind::word ? find_register(operand.word) : nullptr;
  if (known == nullptr || known->bits == 1) refuse("a register was expected");
  return *known;
}

void Decoder::address(const Operand& operand, Instruction& instruction, RegOffset& base) {
  if (operand.kind != Operand::Kind::address) refuse("an address was expected");
  instruction.offset = operand.offset;
  if (const Variable* const named = variable(operand.word)) {
    base = constant(named->address, 64);
  } else if (operand.word.empty()) {
    base = constant(0, 64);
  } else {
    const Register* const known = find_register(operand.word);
    if (known == nullptr) refuse("there is no " + operand.word);
    if (known->bits != 64) refuse(operand.word + " is no address of 64 bits");
    base = known->offset;
  }
}

void Decoder::branch(const Operand& label) {
  if (label.kind != Operand::Kind::word) refuse("a label was expected");
  fixups_.push_back({program_.code.size(), label.word, line_});
}

// ---- calls --------------------------------------------------------------------------------------

Copy Decoder::copy_of(const Operand& operand, const Copy& formal, bool in) const {
  const Variable* const own =
      operand.kind == Operand::Kind::word ? variable(operand.word) : nullptr;
  if (own == nullptr || own->space != Space::call) refuse("a parameter of the call was expected");
  if (own->bytes != formal.bytes)
    refuse(operand.word + " has " + std::to_string(own->bytes) + " bytes, where the function has " +
           std::to_string(formal.bytes));
  const auto offset = static_cast<std::uint32_t>(own->address - window(Space::call));
  return in ? Copy{formal.from, offset, formal.bytes} : Copy{offset, formal.from, formal.bytes};
}

void Decoder::count(const Operand& list, std::size_t wanted) const {
  if (list.kind != Operand::Kind::list || list.parts.size() != wanted)
    refuse("the function takes and gives " + std::to_string(wanted) + " parameters here");
}

// call (result), function, (parameters). Empty lists may be omitted.
void Decoder::call(const Statement& statement, Instruction& instruction) {
  const auto& operands = statement.operands;
  const auto name = std::find_if(operands.begin(), operands.end(), [](const Operand& one) {
    return one.kind == Operand::Kind::word;
  });
  if (name == operands.end()) refuse("a function's name was expected");
  const std::uint32_t number = function(name->word);
  const Function& called = program_.functions[number];
  if (called.entry || !called.declared)
    refuse(name->word + " cannot be called: it is not declared before");
  Call made{.name = name->word, .function = number};
  const Operand none{.kind = Operand::Kind::list, .word = {}};
  const Operand& results = name != operands.begin() ? operands.front() : none;
  const Operand& params = name + 1 != operands.end() ? *(name + 1) : none;
  count(results, called.result.size());
  count(params, called.params.size());
  for (std::size_t k = 0; k < called.params.size(); ++k)
    made.in.push_back(copy_of(params.parts[k], called.params[k], true));
  for (std::size_t k = 0; k < called.result.size(); ++k)
    made.out.push_back(copy_of(results.parts[k], called.result[k], false));
  instruction.target = static_cast<std::uint32_t>(program_.calls.size());
  program_.calls.push_back(std::move(made));
}

}  // namespace jitstep::ptx
