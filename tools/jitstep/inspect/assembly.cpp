#include "assembly.h"

#include <jit/base/text.h>
#include <jit/source/source_map.h>

#include <algorithm>
#include <array>
#include <iomanip>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace jitstep::tool::inspect {
namespace {

using jit::str_cat;

bool starts_with_any(std::string_view word, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return word.starts_with(start); });
}

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
}

// Without the comment that clang appends, as in `jitstep_apply:   # @jitstep_apply`.
std::string_view without_comment(std::string_view line) {
  for (const std::string_view comment : {"# ", "// "}) {
    const std::size_t at = line.find(comment);
    if (at != line.npos && line.find('"') > at) line = trimmed(line.substr(0, at));
  }
  return line;
}

std::string_view first_word(std::string_view line) {
  return line.substr(0, line.find_first_of(" \t"));
}

bool is_label(std::string_view line) { return line.ends_with(':') && line.find('"') == line.npos; }

// ---- counting ----------------------------------------------------------------------------------

// Index in FunctionCounts::wide of the widest vector register: 0, 1 or 2 for 512, 256 or 128 bits. -1 if there is none.
int width_of(std::string_view instruction) {
  static constexpr std::array<std::string_view, 3> kRegisters = {"%zmm", "%ymm", "%xmm"};
  for (int width = 0; width < 3; ++width)
    if (instruction.find(kRegisters[static_cast<std::size_t>(width)]) != instruction.npos)
      return width;
  static const std::regex kNeon(R"(\bv\d+\.(16b|8h|4s|2d)|\bq\d+\b)");
  return std::regex_search(instruction.begin(), instruction.end(), kNeon) ? 2 : -1;
}

// Whether an x86 operation works on one number in a vector register, as addss and vcvtsd2si do.
bool is_scalar(std::string_view operation) {
  return operation.ends_with("ss") || operation.ends_with("sd") ||
         operation.find("ss2") != operation.npos || operation.find("sd2") != operation.npos ||
         operation.ends_with("2ss") || operation.ends_with("2sd") ||
         starts_with_any(operation, {"vmovd", "movd", "vmovq", "movq"});
}

// Stack bytes that an instruction allocates, as in `subq $136, %rsp` or `sub sp, sp, #136`. Else 0.
int frame_of(const std::string& instruction) {
  static const std::regex kFrame(R"(^(?:subq\s+\$(\d+), %rsp|sub\s+sp, sp, #(\d+)))");
  std::smatch found;
  if (!std::regex_search(instruction, found, kFrame)) return 0;
  return std::stoi(found[1].matched ? found[1] : found[2]);
}

void count(const std::string& instruction, FunctionCounts& counts) {
  ++counts.instructions;
  const std::string_view operation = first_word(instruction);
  const int width = width_of(instruction);
  if (width == 2 && is_scalar(operation)) {
    ++counts.scalar;
  } else if (width >= 0) {
    ++counts.wide[width];
  }
  counts.stack_bytes = std::max(counts.stack_bytes, frame_of(instruction));
}

// ---- lines of the templates --------------------------------------------------------------------

// The source lines that `.file` and `.loc` directives refer to.
class SourceLocations {
 public:
  explicit SourceLocations(const std::string& preprocessed) : files_(jit::files_of(preprocessed)) {}

  // Reads `.file 3 "rules/adamw.cuh"` (g++) or `.file 3 "rules" "adamw.cuh"` (clang).
  void add_file(std::string_view line) {
    std::istringstream words{std::string(line.substr(line.find_first_of(" \t")))};
    int number = 0;
    if (!(words >> number)) return;
    std::vector<std::string> parts;
    // Before DWARF 5's checksum: `md5 0x...`
    for (std::string part; words >> std::quoted(part) && part != "md5";) parts.push_back(part);
    names_[number] = jit::joined(parts, "/");
  }

  // Reads `.loc 3 41 7`. Returns a comment with the source line, or nothing if the line is the same as before.
  std::string comment(std::string_view line) {
    std::istringstream words{std::string(line.substr(4))};
    int file = 0, number = 0;
    words >> file >> number;
    const std::string& name = names_[file];
    if (const auto location = str_cat(name, ":", number); number == 0 || location == last_) {
      return {};
    } else {
      last_ = location;
    }
    const auto known = files_.find(name);
    if (known == files_.end() || !known->second.contains(number)) return {};
    return str_cat("# ", last_, ": ", trimmed(known->second.at(number)), "\n");
  }

 private:
  jit::Files files_;
  std::map<int, std::string> names_;
  std::string last_;
};

// Whether a line is in a section of debug information or of exception tables. `before`: whether the previous line is.
bool is_hidden(std::string_view line, bool before) {
  const bool begins = line.starts_with(".section") || line == ".text" || line == ".data";
  if (!begins) return before;
  return line.find("debug") != line.npos || line.find("gcc_except_table") != line.npos;
}

// Labels that an instruction or table refers to.
std::set<std::string> named_labels(const std::string& assembly) {
  static const std::regex kLabel(R"(\.L[\w.$]+)");
  std::set<std::string> named;
  bool hidden = false;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view rest = trimmed(line);
    hidden = is_hidden(rest, hidden);
    if (hidden || is_label(rest) || starts_with_any(rest, {".loc", ".file", ".size"})) continue;
    for (std::sregex_iterator one(line.begin(), line.end(), kLabel), end; one != end; ++one)
      named.insert(one->str());
  }
  return named;
}

// Whether a directive is shown: table contents, alignment and global symbols.
bool is_shown(std::string_view line) {
  return starts_with_any(line, {".byte", ".short", ".value", ".long", ".quad", ".zero", ".string",
                                ".ascii", ".2byte", ".4byte", ".8byte", ".globl", ".p2align"});
}

}  // namespace

std::vector<FunctionCounts> count_functions(const std::string& assembly) {
  static const std::regex kFunction(R"(^\s*\.type\s+([\w.$]+)\s*,\s*[@%]function)");
  std::vector<FunctionCounts> functions;
  std::set<std::string> names, entries;
  bool in_code = false;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, kFunction)) names.insert(found[1]);
    const std::string word(without_comment(trimmed(line)));
    if (word.starts_with(".globl")) entries.emplace(trimmed(word.substr(6)));
    if (word.starts_with(".section") || word == ".text" || word == ".data")
      in_code = in_code && word.find("debug") == word.npos && word.find("rodata") == word.npos;
    if (is_label(word) && names.contains(word.substr(0, word.size() - 1))) {
      in_code = true;
      const std::string name = word.substr(0, word.size() - 1);
      functions.push_back({.name = name, .is_entry = entries.contains(name)});
    } else if (in_code && !functions.empty() && !word.empty() && !is_label(word) &&
               word[0] != '.' && word[0] != '#') {
      count(word, functions.back());
    }
  }
  return functions;
}

std::string with_source_lines(const std::string& assembly, const std::string& preprocessed) {
  const std::set<std::string> named = named_labels(assembly);
  SourceLocations locations(preprocessed);
  std::string out;
  bool hidden = false;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view rest = without_comment(trimmed(line));
    hidden = is_hidden(rest, hidden);
    if (hidden || rest.empty()) continue;
    if (rest.starts_with(".file")) {
      locations.add_file(rest);
    } else if (rest.starts_with(".loc ") || rest.starts_with(".loc\t")) {
      out += locations.comment(rest);
    } else if (is_label(rest)) {
      const std::string name(rest.substr(0, rest.size() - 1));
      if (!name.starts_with(".L") || named.contains(name)) out += name + ":\n";
    } else if ((rest[0] != '.' && rest[0] != '#') || is_shown(rest)) {
      out += str_cat("    ", rest, "\n");
    }
  }
  return out;
}

}  // namespace jitstep::tool::inspect
