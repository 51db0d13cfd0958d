#include "jit/compiler/diagnosis.h"

#include <algorithm>
#include <array>
#include <optional>

#include "jit/base/kernel_language.h"
#include "jit/base/text.h"
#include "jit/source/source_map.h"

namespace jitstep::jit {
namespace {

using View = std::string_view;

constexpr std::size_t kLongest = 240, kLongestLocation = 40;

// Explanations of compiler messages. The first matching one is used. The types are from
// kernel/check/contract_check.cuh.
struct Hint {
  View sign, words, folder = {};  // of the files it applies to; default: all
};
constexpr View kWritten = "`update_state` sets each slot's `next`, and `update_param` sets e.p";
constexpr View kReturned = "a codec's functions return results and write nothing";
constexpr View kTransformed =
    "only functions after a host transform read e.transformed, such as `update_param`";
constexpr View kAlone = "`e` is one element, without neighbors";
constexpr View kMember = "name a member: e.SLOT.prev, e.SLOT.next or c.RESULT.FIELD";
constexpr View kEarly =
    "`update_state` sets `next`, after the reductions marked `update_state`. After a host "
    "transform, `update_state_after` does";
constexpr View kTerms = "`terms` returns one value for each of the reduction's terms";
constexpr View kCopied = "`e` cannot be copied: writes to a copy are lost";
constexpr std::array kHints = {
    Hint{"ScalarsOfOneTensor",
         "`prepare` reads a tensor's AuxState. A `finalize` over `all` has none: return the "
         "sum, and use scalars in `update_param`"},
    Hint{"LaterResult", "known later: mark its reduction `update_state`, or its reader `after:`"},
    Hint{"to 'jitstep::Reals<", kTerms, "rules/"},
    Hint{"excess elements in struct initializer", kTerms, "rules/"},
    Hint{"too many initializer values", kTerms, "rules/"},
    Hint{"named 'transformed'", kTransformed},
    Hint{"member \"transformed\"", kTransformed},
    Hint{"no match for 'operator", kMember, "rules/"},
    Hint{"overloaded '", kMember, "rules/"},
    Hint{"invalid operands to binary", kMember, "rules/"},
    Hint{"matches these operands", kMember, "rules/"},
    Hint{"PreviousSlot'", kEarly},  // not where it is an argument of another type
    Hint{"PreviousSlot\"", kEarly},
    Hint{"operator&", kAlone},
    Hint{"operator '&'", kAlone},
    Hint{"read-only", kWritten, "rules/"},
    Hint{"modifiable lvalue", kWritten, "rules/"},
    Hint{"const-qualified", kWritten, "rules/"},
    Hint{"read-only", kReturned, "codecs/"},
    Hint{"modifiable lvalue", kReturned, "codecs/"},
    Hint{"const-qualified", kReturned, "codecs/"},
    Hint{"deleted function", kCopied, "rules/"},
    Hint{"deleted constructor", kCopied, "rules/"},
    Hint{"implicitly-deleted copy", kCopied, "rules/"},
    Hint{"BetweenSteps",
         "`eval` and `train`: `e` has p and the slots' `prev`, `c` has `prepare`'s result"},
    Hint{"ContextView", "`c` has `prepare`'s result and the results of reductions"},
    Hint{"float-conversion", "a rule computes in `real`: write real(0.1), or static_cast<real>"},
    Hint{"ElementView", "`e` has p, g and the slots"},
};

bool has(View text, View part) { return text.find(part) != text.npos; }

// Matches `FILE:12:5: error: what` (g++, clang), `FILE(12): error: what` and `FILE(12): error #20-D: what`.
std::optional<std::size_t> error_in(View line) {
  const std::size_t at = std::min(line.find("error: "), line.find("error #"));
  if (at == line.npos) return {};
  return line.find(": ", at) + 2;
}

// The first error that `fits` accepts. Empty if there is none.
template <class Fits>
View first_error(View log, const Fits& fits) {
  while (!log.empty()) {
    const View line = log.substr(0, log.find('\n'));
    if (const auto what = error_in(line); what && fits(line.substr(*what))) return line;
    log.remove_prefix(std::min(line.size() + 1, log.size()));
  }
  return {};
}

bool is_extension(const std::string& file) {
  return file.starts_with("rules/") || file.starts_with("codecs/") || file.starts_with("weights/");
}

// The location of the codec that `words` names, else of the rule.
std::optional<SourceLocation> declaration(const Files& files, View words) {
  std::optional<SourceLocation> found;
  for (const auto& [file, lines] : files) {
    const bool named = is_extension(file) && has(words, file);
    if (!named && !file.starts_with("rules/")) continue;
    for (const auto& [number, line] : lines)
      if (has(line, "struct Rule") || has(line, "struct Codec"))
        found = SourceLocation{file, number};
    if (named) break;
  }
  return found;
}

// The location of the codec that a compiler message names as a type.
std::optional<SourceLocation> codec_in(const Files& files, View words) {
  constexpr View kFolder = "codecs/", kEnding = ".cuh";
  for (const auto& [file, lines] : files) {
    if (!file.starts_with(kFolder) || !file.ends_with(kEnding)) continue;
    const View name =
        View(file).substr(kFolder.size(), file.size() - kFolder.size() - kEnding.size());
    if (has(words, str_cat("codecs::", name, "::Codec"))) return declaration(files, file);
  }
  return {};
}

// Without clang's quote of the condition: ` due to requirement 'sizeof(int) == 8': text`.
View after_requirement(View rest) {
  if (!rest.starts_with(" due to requirement '")) return rest;
  const std::size_t end = std::min(rest.find("': "), rest.find("' \""));
  return end == rest.npos ? View() : rest.substr(end + 1);
}

// The text of a failed assertion, bare (g++, clang) or quoted (NVRTC, older versions of clang). Empty for other errors,
// and for an assertion without a text.
View asserted(View what) {
  for (const View words : {View("static assertion failed"), View("static_assert failed")}) {
    const std::size_t at = what.find(words);
    if (at == what.npos) continue;
    View rest = after_requirement(what.substr(at + words.size()));
    if (rest.starts_with(": ")) return rest.substr(2);
    const std::size_t open = rest.find('"');
    return open == rest.npos ? View() : rest.substr(open + 1, rest.rfind('"') - open - 1);
  }
  return {};
}

// The error's own location if it is in a rule, codec or weight format, else the first such location in the log, which
// is a caller. A missing declaration has no location, so the location is the rule, or the codec that the error names.
std::optional<SourceLocation> location_of(const Files& files, View error, View words, View log) {
  const std::vector<SourceLocation> own = locations_of(files, error),
                                    all = locations_of(files, log);
  if (!own.empty() && is_extension(own[0].file)) return own[0];
  if (const auto begin = declaration(files, words); begin && !words.empty()) return begin;
  const auto user = std::find_if(all.begin(), all.end(), [](const SourceLocation& location) {
    return is_extension(location.file);
  });
  if (user != all.end()) return *user;
  if (const auto codec = codec_in(files, error)) return codec;
  return own.empty() ? std::optional<SourceLocation>() : own[0];
}

// Shortens long template arguments, which do not help authors of rules.
std::string without_arguments(View what) {
  constexpr std::size_t kShort = 24;
  std::string out;
  while (!what.empty()) {
    const std::size_t open = what.find('<');
    out += what.substr(0, open);
    if (open == what.npos) break;
    std::size_t end = open, depth = 0;
    do {
      if (what[end] == '<') ++depth;
      if (what[end] == '>') --depth;
    } while (++end < what.size() && depth > 0);
    out += end - open > kShort && depth == 0 ? "<...>" : what.substr(open, end - open);
    what.remove_prefix(end);
  }
  return out;
}

// Removes "[with Arguments = ...]", which g++ and NVRTC append to a function's name.
std::string without_values(View what) {
  const std::size_t open = what.find(" [with "), close = what.rfind(']');
  if (open == what.npos || close == what.npos || close < open) return std::string(what);
  return str_cat(what.substr(0, open), what.substr(close + 1));
}

// The function that templates/lang/refused.cuh deletes: `expf` in "use of deleted function 'double
// jitstep::expf(Arguments ...)'" (g++), "call to deleted function 'expf'" (clang) or "function "jitstep::expf(...)"
// cannot be referenced -- it is a deleted function" (NVRTC). Empty for other errors.
View deleted_function(View what) {
  if (!has(what, "deleted function") || has(what, "operator") || has(what, "Element")) return {};
  const std::size_t quote = what.find_first_of("'\"");
  if (quote == what.npos) return {};
  View name = what.substr(quote + 1);
  name = name.substr(0, name.find_first_of("('\""));
  return name.substr(name.find_last_of(" :") + 1);  // 0 if there is none
}

// Functions of templates/lang/elementary.cuh without a float overload.
constexpr std::array<View, 5> kOfDouble = {"exp", "exp2", "log", "log2", "pow"};

// The message for a deleted function, the same for every compiler.
std::string deleted_message(View function) {
  if (function == "fma")
    return "`fma` takes three `float` or three `double`: convert with static_cast";
  if (std::find(kOfDouble.begin(), kOfDouble.end(), function) != kOfDouble.end())
    return str_cat("`", function,
                   "` takes `double`, for `prepare` and `finalize`: convert with static_cast");
  return not_portable(function);
}

// Our own words come last, so the compiler's are shortened.
std::string explain(View what, View file, View line) {
  if (const View function = deleted_function(what); !function.empty())
    return deleted_message(function);
  const std::string out = without_arguments(without_values(what));
  for (const Hint& hint : kHints)
    if (has(what, hint.sign) && file.starts_with(hint.folder))
      return str_cat(abbreviated(out, kLongest - kLongestLocation - hint.words.size()), ": ",
                     hint.words);
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  return str_cat(out, " in `", line.substr(begin), "`");
}

// A linker's own line has the name that it lacks.
bool is_error(View line) { return error_in(line).has_value() || has(line, "undefined reference"); }

// The first lines that `fits` accepts, shortened.
template <class Fits>
std::string first_lines(View log, const Fits& fits) {
  constexpr int kMost = 5;
  std::string out;
  for (int count = 0; count < kMost && !log.empty();) {
    const View line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (!fits(line)) continue;
    out += abbreviated(without_arguments(without_values(line)), kLongest) + "\n";
    ++count;
  }
  return out;
}

}  // namespace

std::string diagnosis(View preprocessed, View log) {
  View error = first_error(log, [](View) { return true; });
  if (error.empty()) return {};
  Files files = files_of(preprocessed);
  // An error in a file may first appear in the kernel's loops. The contract's assertion explains it better.
  const View broken = first_error(log, [](View what) { return !asserted(what).empty(); });
  const std::vector<SourceLocation> own = locations_of(files, error);
  if (!broken.empty() && (own.empty() || !is_extension(own[0].file))) error = broken;
  const View what = error.substr(*error_in(error)), words = asserted(what);
  const auto location = location_of(files, error, words, log);
  if (!location) return {};
  const std::string explanation =
      words.empty() ? explain(what, location->file, files[location->file][location->line])
                    : std::string(words);
  return abbreviated(str_cat(location->file, ":", location->line, ": ", explanation), kLongest);
}

std::string shortened(View log) {
  constexpr std::ptrdiff_t kMostLines = 12;
  constexpr std::size_t kMostBytes = 2000;
  const auto lines = std::count(log.begin(), log.end(), '\n');
  if (lines <= kMostLines && log.size() <= kMostBytes) return std::string(log);
  std::string out = first_lines(log, is_error);
  if (out.empty()) out = first_lines(log, [](View) { return true; });
  return str_cat(out, "(The complete output has ", lines,
                 " lines. The log of the CompileError has it. ",
                 "If you set JITSTEP_DUMP to a folder, a file there has it.)\n");
}

}  // namespace jitstep::jit
