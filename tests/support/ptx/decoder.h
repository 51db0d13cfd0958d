// From statements to instructions: names become places in registers and memory.
#pragma once

#include <set>

#include "support/ptx/forms.h"
#include "support/ptx/program.h"

namespace jitstep::ptx {

/// A register's place and its bits; 1: a predicate.
struct Register {
  Place place = 0;
  int bits = 0;
};

struct Variable {
  Space space = Space::generic;
  Address address = 0;  // in its space
  std::uint32_t bytes = 0;
};

/// A function's register for where its call goes on.
inline constexpr char kReturnTo[] = "%return_to";

/// Reads the operands of one function's statements. Names that are not there, or of another size, are a PtxError.
class Decoder {
 public:
  explicit Decoder(Program& program) : program_(program) {}

  // ---- names; those declared inside braces end with them

  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }
  Place declare(const std::string& name, int bits);
  void declare(const std::string& name, const Variable& variable);
  /// In all functions.
  void declare_everywhere(const std::string& name, const Variable& variable);
  void mark(const std::string& label, int line);
  const Variable* variable(const std::string& name) const;

  // ---- functions

  /// Registers and labels begin anew.
  void begin_function(Place first_register);
  /// Registers' end. Labels that are not there are a PtxError.
  Place end_function();
  std::uint32_t function(const std::string& name);

  // ---- statements

  void decode(const Statement& statement);

  /// The place of an operand that is read: a register of so many bits, a number, a variable's address or a special
  /// register.
  Place source(const Operand& operand, int bits);
  /// The place of an operand that is written.
  Place result(const Operand& operand, int bits);
  /// A register of any size but a predicate.
  Register any(const Operand& operand) const;
  const Register* find_register(const std::string& name) const;
  /// A number or an address for all lanes.
  Place constant(std::uint64_t bits, int width);
  /// The base and the offset of an operand that stands for a place in memory.
  void address(const Operand& operand, Instruction& instruction, Place& base);
  /// The instruction that is being read goes to the label, wherever it is.
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
  std::map<std::pair<std::uint64_t, int>, Place> constants_;
  std::map<std::string, std::uint32_t> labels_;
  std::vector<Fixup> fixups_;
  Place next_register_ = 0;
  int line_ = 0;
};

}  // namespace jitstep::ptx
