#include "support/ptx/program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "support/ptx/decoder.h"
#include "support/ptx/shadow.h"

namespace jitstep::ptx {
namespace {

constexpr std::uint32_t kSharedStart = 1024;  // so that no variable has address 0
constexpr std::uint32_t kSharedGap = 64;

std::uint32_t up(std::uint32_t value, std::uint32_t step) {
  return (value + step - 1) / step * step;
}

// The width of a type such as ".b32". 1 for a predicate, 0 if it is not a type.
int bits_of(std::string_view type) {
  if (type == ".pred") return 1;
  if (type.size() < 3 || std::string_view("busf").find(type[1]) == std::string_view::npos) return 0;
  const std::string digits(type.substr(2));
  for (const int bits : {8, 16, 32, 64})
    if (digits == std::to_string(bits)) return bits;
  return 0;
}

constexpr std::uint32_t kGlobalGap = 64;  // between variables

void run_past_the_end(Warp&, const Instruction&, Mask) {
  throw Fault{kLaunchFailed, "runs past the end of a function"};
}

// The contents of a variable's declaration.
struct Declared {
  std::string name;
  std::uint32_t alignment = 1, bytes = 0, element = 0;
};

class ProgramReader {
 public:
  ProgramReader(const std::string& text, const PlaceGlobals& place_globals)
      : place_globals_(place_globals), tokens_(text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) program_.lines.push_back(trimmed(line));
    program_.call_bytes = 16;
  }

  Program read() {
    while (!tokens_.at_end()) read_directive();
    if (program_.target.empty()) throw PtxError(1, "there is no .target");
    place_globals_once();
    for (const Function& function : program_.functions)
      if (!function.defined) throw PtxError(1, function.name + " is declared and not there");
    check_calls();
    program_.register_bytes = up(std::max(registers_, kSpecials * kRegisterBytes), kRegisterBytes);
    return std::move(program_);
  }

 private:
  static std::string trimmed(const std::string& line) {
    std::string words;
    for (const char c : line)
      if (!std::isspace(static_cast<unsigned char>(c)))
        words += c;
      else if (!words.empty() && words.back() != ' ')
        words += ' ';
    return words.size() > 150 ? words.substr(0, 150) + "..." : words;
  }

  int line() const { return tokens_.peek().line; }
  std::uint32_t number() { return static_cast<std::uint32_t>(read_number(tokens_).bits); }

  void read_directive() {
    const Token word = tokens_.next();
    if (word.text == ".version" || word.text == ".address_size") {
      tokens_.next();
    } else if (word.text == ".target") {
      program_.target = tokens_.next().text;
    } else if (word.text == ".visible" || word.text == ".weak") {
    } else if (word.text == ".global" || word.text == ".shared") {
      read_variable(word.text);
    } else if (word.text == ".entry" || word.text == ".func") {
      read_function(word.text == ".entry");
    } else {
      throw PtxError(word.line, "the directive " + std::string(word.text) + " is not known");
    }
  }

  // ---- variables

  // [.align N] .TYPE NAME[[N]]
  Declared read_declared() {
    Declared one;
    if (tokens_.take(".align")) one.alignment = number();
    const Token type = tokens_.next();
    one.element = static_cast<std::uint32_t>(bits_of(type.text)) / 8;
    if (one.element == 0)
      throw PtxError(type.line, "the type " + std::string(type.text) + " is not known");
    one.alignment = std::max(one.alignment, one.element);
    one.name = tokens_.next().text;
    one.bytes = one.element;
    if (tokens_.take("[")) {
      one.bytes *= number();
      tokens_.expect("]");
    }
    return one;
  }

  void read_variable(std::string_view space) {
    const Declared one = read_declared();
    if (space == ".global") {
      read_global(one);
    } else if (space == ".shared") {
      auto& all = program_.shared;
      const std::uint32_t from = all.empty() ? kSharedStart : all.back().end + kSharedGap;
      const std::uint32_t begin = up(from, one.alignment);
      all.push_back({begin, begin + one.bytes});
      decoder_.declare(one.name, {Space::shared, begin, one.bytes});
    } else if (space == ".local") {
      const std::uint32_t begin = up(program_.local_bytes, one.alignment);
      program_.local_bytes = begin + one.bytes;
      decoder_.declare(one.name, {Space::local, begin, one.bytes});
    } else {
      declare_call_param(one);
    }
    tokens_.expect(";");
  }

  Copy declare_call_param(const Declared& one) {
    const std::uint32_t begin = up(program_.call_bytes, std::max(one.alignment, 16u));
    program_.call_bytes = begin + one.bytes;
    decoder_.declare(one.name, {Space::call, window(Space::call) + begin, one.bytes});
    return {.to = 0, .from = begin, .bytes = one.bytes};
  }

  // All addresses are known before the first instruction.
  void read_global(const Declared& one) {
    if (placed_)
      throw PtxError(line(), "global variables after a function's body are not supported");
    const auto end = static_cast<std::uint32_t>(globals_.size());
    const std::uint32_t begin = up(end == 0 ? 0 : end + kGlobalGap, one.alignment);
    globals_.resize(begin + one.bytes);
    global_names_.push_back(one.name);
    global_ranges_.push_back({begin, begin + one.bytes});
    if (!tokens_.take("=")) return;
    const bool list = tokens_.take("{");
    std::uint32_t at = begin;
    do {
      const Operand value = read_number(tokens_);
      if (at + one.element > begin + one.bytes)
        throw PtxError(line(), one.name + " has too many values");
      std::memcpy(&globals_[at], &value.bits, one.element);
      at += one.element;
    } while (list && tokens_.take(","));
    if (list) tokens_.expect("}");
  }

  void place_globals_once() {
    if (placed_) return;
    placed_ = true;
    const Address base = globals_.empty() ? 0 : place_globals_(globals_, global_ranges_);
    for (std::size_t k = 0; k < global_names_.size(); ++k) {
      const auto [begin, end] = global_ranges_[k];
      decoder_.declare_everywhere(global_names_[k], {Space::global, base + begin, end - begin});
    }
  }

  // ---- functions

  // An entry's parameters are in the parameter space. A function's are where its declaration has put them, if there is
  // one.
  std::vector<Declared> read_params() {
    std::vector<Declared> params;
    if (!tokens_.take("(")) return params;
    while (!tokens_.take(")")) {
      tokens_.expect(".param");
      params.push_back(read_declared());
      if (!tokens_.at(")")) tokens_.expect(",");
    }
    return params;
  }

  void place_entry_params(const std::vector<Declared>& params, Function& entry) {
    for (const Declared& one : params) {
      const std::uint32_t begin = up(entry.param_bytes, one.alignment);
      entry.param_bytes = begin + one.bytes;
      entry.params.push_back({.to = 0, .from = begin, .bytes = one.bytes});
      decoder_.declare(one.name, {Space::param, window(Space::param) + begin, one.bytes});
    }
  }

  std::vector<Copy> place_params(const std::vector<Declared>& params,
                                 const std::vector<Copy>& known) {
    std::vector<Copy> copies;
    for (const Declared& one : params) {
      Copy copy = declare_call_param(one);
      if (copies.size() < known.size()) copy = known[copies.size()];
      if (copy.bytes != one.bytes)
        throw PtxError(line(), one.name + " has another size than declared");
      decoder_.declare(one.name, {Space::call, window(Space::call) + copy.from, one.bytes});
      copies.push_back(copy);
    }
    return copies;
  }

  void read_function(bool entry) {
    decoder_.open();
    const std::vector<Declared> result = entry ? std::vector<Declared>() : read_params();
    const std::string name(tokens_.next().text);
    const std::vector<Declared> params = read_params();
    const std::uint32_t number = decoder_.function(name);
    if (program_.functions[number].defined) throw PtxError(line(), name + " is defined twice");
    Function& function = program_.functions[number];
    function.entry = entry;
    if (entry) place_entry_params(params, function);
    if (!entry) function.result = place_params(result, function.result);
    if (!entry) function.params = place_params(params, function.params);
    read_limits(function);
    function.declared = true;
    function.defined = !tokens_.take(";");
    if (function.defined) read_body(number);
    decoder_.close();
  }

  void read_limits(Function& head) {
    for (;;) {
      if (tokens_.take(".maxntid")) {
        head.threads = number();
        while (tokens_.take(",")) head.threads *= number();
      } else if (tokens_.take(".minnctapersm") || tokens_.take(".maxnreg")) {
        number();
      } else if (!tokens_.take(".noreturn")) {
        return;
      }
    }
  }

  // Entries never run together, so that they may share registers. Each function has its own.
  void read_body(std::uint32_t which) {
    tokens_.expect("{");
    const bool entry = program_.functions[which].entry;
    const RegOffset first = entry ? function_registers_ : registers_;
    place_globals_once();
    decoder_.begin_function(std::max(first, kSpecials * kRegisterBytes));
    program_.functions[which].begin = static_cast<std::uint32_t>(program_.code.size());
    if (!entry) program_.functions[which].return_to = decoder_.declare(kReturnTo, 32);
    int last_line = 0;
    for (int depth = 1; depth > 0; depth += read_body_part(depth)) last_line = line();
    program_.code.push_back({.run = &run_past_the_end, .line = last_line});
    program_.functions[which].end = static_cast<std::uint32_t>(program_.code.size());
    registers_ = std::max(registers_, up(decoder_.end_function(), kRegisterBytes));
    if (!entry) function_registers_ = registers_;
  }

  // Returns the change of depth by braces.
  int read_body_part(int depth) {
    if (tokens_.take("{")) return decoder_.open(), 1;
    if (tokens_.take("}")) return close_scope(depth);
    if (tokens_.take(".reg")) return read_registers(), 0;
    if (tokens_.take(".pragma")) return tokens_.next(), tokens_.expect(";"), 0;
    for (const char* space : {".shared", ".local", ".param"})
      if (tokens_.take(space)) return read_variable(space), 0;
    Tokens ahead = tokens_;
    const Token word = ahead.next();
    if (ahead.at(":")) {
      decoder_.mark(std::string(word.text), word.line);
      tokens_.next();
      tokens_.next();
    } else {
      decoder_.decode(read_statement(tokens_));
    }
    return 0;
  }

  int close_scope(int depth) {
    if (depth > 1) decoder_.close();
    return -1;
  }

  void read_registers() {
    const Token type = tokens_.next();
    const int bits = bits_of(type.text);
    if (bits == 0 || bits == 8)
      throw PtxError(type.line,
                     "registers of the type " + std::string(type.text) + " are not known");
    do {
      const std::string name(tokens_.next().text);
      if (!tokens_.take("<")) {
        decoder_.declare(name, bits);
        continue;
      }
      const std::uint32_t count = number();
      tokens_.expect(">");
      for (std::uint32_t k = 0; k < count; ++k) decoder_.declare(name + std::to_string(k), bits);
    } while (tokens_.take(","));
    tokens_.expect(";");
  }

  // Recursion is an error, because registers and return addresses exist once per function.
  void check_calls() const {
    std::vector<int> state(program_.functions.size(), 0);
    for (std::uint32_t k = 0; k < program_.functions.size(); ++k) visit(k, state);
  }
  void visit(std::uint32_t which, std::vector<int>& state) const {
    const Function& function = program_.functions[which];
    if (state[which] == 2) return;
    if (state[which] == 1) throw PtxError(1, function.name + " calls itself");
    state[which] = 1;
    for (std::uint32_t pc = function.begin; pc < function.end; ++pc)
      if (program_.code[pc].is_call)
        visit(program_.calls[program_.code[pc].target].function, state);
    state[which] = 2;
  }

  const PlaceGlobals& place_globals_;
  Tokens tokens_;
  Program program_;
  Decoder decoder_{program_};
  std::vector<std::byte> globals_;
  std::vector<std::string> global_names_;
  std::vector<Range> global_ranges_;
  bool placed_ = false;
  RegOffset registers_ = kSpecials * kRegisterBytes, function_registers_ = registers_;
};

}  // namespace

const Function* Program::entry(std::string_view name) const {
  for (const Function& function : functions)
    if (function.entry && function.name == name) return &function;
  return nullptr;
}

int architecture(const Program& program) {
  return program.target.starts_with("sm_") ? std::atoi(program.target.c_str() + 3) : 0;
}

Program read_program(const std::string& text, const PlaceGlobals& place_globals) {
  return ProgramReader(text, place_globals).read();
}

}  // namespace jitstep::ptx
