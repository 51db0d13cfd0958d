// Translates statements to instructions: names become offsets of registers and addresses in memory.
#pragma once

#include <set>

#include "support/ptx/forms.h"
#include "support/ptx/program.h"

namespace jitstep::ptx {

/// A register's offset and its width in bits. A width of 1 is a predicate.
struct Register {
  RegOffset offset = 0;
  int bits = 0;
};

struct Variable {
  Space space = Space::generic;
  Address address = 0;  // within its space
  std::uint32_t bytes = 0;
};

/// Name of a function's register for the return address.
inline constexpr char kReturnTo[] = "%return_to";

/// Decodes the operands of one function's statements. Throws PtxError for unknown names and for wrong sizes.
class Decoder {
 public:
  explicit Decoder(Program& program) : program_(program) {}

  // ---- names, which are valid until the end of their braces

  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }
  RegOffset declare(const std::string& name, int bits);
  void declare(const std::string& name, const Variable& variable);
  /// Declares a variable for all functions.
  void declare_everywhere(const std::string& name, const Variable& variable);
  void mark(const std::string& label, int line);
  const Variable* variable(const std::string& name) const;

  // ---- functions

  /// Starts a function with no registers and labels.
  void begin_function(RegOffset first_register);
  /// Returns the end of the registers. Throws PtxError if a label is missing.
  RegOffset end_function();
  std::uint32_t function(const std::string& name);

  // ---- statements

  void decode(const Statement& statement);

  /// The location of a source operand: a register of this width, a number, a variable's address or a special register.
  RegOffset source(const Operand& operand, int bits);
  /// The location of a destination operand.
  RegOffset result(const Operand& operand, int bits);
  /// A register of any width except a predicate.
  Register any(const Operand& operand) const;
  const Register* find_register(const std::string& name) const;
  /// A number or an address, the same for all lanes.
  RegOffset constant(std::uint64_t bits, int width);
  /// The base and the offset of a memory operand.
  void address(const Operand& operand, Instruction& instruction, RegOffset& base);
  /// Sets the branch target of the current instruction. The label may come later.
  void branch(const Operand& label);
  void call(const Statement& statement, Instruction& instruction);
  [[noreturn]] void refuse(const std::string& what) const { throw PtxError(line_, what); }

 private:
  struct Fixup {
    std::size_t instruction;
    std::string label;
    int line;
  };
  struct Scope {
    std::map<std::string, Register> registers;
    std::map<std::string, Variable> variables;
  };

  Copy copy_of(const Operand& operand, const Copy& formal, bool in) const;
  void count(const Operand& list, std::size_t wanted) const;

  Program& program_;
  std::vector<Scope> scopes_{1};
  std::map<std::pair<std::uint64_t, int>, RegOffset> constants_;
  std::map<std::string, std::uint32_t> labels_;
  std::vector<Fixup> fixups_;
  RegOffset next_register_ = 0;
  int line_ = 0;
};

}  // namespace jitstep::ptx
