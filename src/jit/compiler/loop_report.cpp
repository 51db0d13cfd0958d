#include "jit/compiler/loop_report.h"

#include <map>
#include <memory>
#include <regex>

#include "jit/base/digest.h"
#include "jit/base/lock_free_static.h"
#include "jit/base/text.h"
#include "jit/source/source_lines.h"

namespace jitstep::jit {
namespace {

using Loops = std::map<SourceLocation, std::string>;  // by the location of their `for`

constexpr std::string_view kIndent = "  ";

// The descriptions of the marked loops in a source.
Loops marked_loops(std::string_view preprocessed) {
  constexpr std::string_view kMark = "// vectorized: ";
  Loops loops;
  for (const auto& [file, lines] : files_of(preprocessed)) {
    std::string what;
    for (const auto& [number, line] : lines) {
      if (const std::size_t at = line.find(kMark); at != line.npos)
        what = line.substr(at + kMark.size());
      if (what.empty() || line.find("for (") == line.npos) continue;
      loops[{file, number}] = what;
      what.clear();
    }
  }
  return loops;
}

std::string log_title(std::string_view preprocessed) {
  return str_cat("loops that are not vectorized, of source ",
                 sha256_hex(preprocessed).substr(0, 16), ":\n");
}

bool remove_prefix(std::string& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.erase(0, prefix.size());
  return true;
}

std::string without_ending(std::string reason) {
  reason = reason.substr(0, reason.find(" [-R"));  // the option that enabled clang's remark
  while (reason.ends_with('.')) reason.pop_back();
  return reason;
}

// Its parts are the file, the line and the message.
std::unique_ptr<const std::regex> form_of_line() {
  return std::make_unique<const std::regex>(R"(^(.+):(\d+):\d+: (?:missed|remark): +(.*)$)");
}

// The reasons of loops that are not vectorized, by location. g++ prints the reason in a separate line, with the
// location of a statement.
Loops reasons_in(std::string_view report) {
  const std::regex& form = lock_free_static<form_of_line>();
  constexpr std::size_t kLongest = 1000;  // longer lines quote whole statements
  Loops reasons;
  std::string* open = nullptr;  // the reason of the last loop, not yet read
  while (!report.empty()) {
    const std::string line(next_line(report));
    std::smatch found;
    if (line.size() > kLongest || !std::regex_match(line, found, form)) continue;
    const SourceLocation location{found[1], std::stoi(found[2])};
    std::string message = found[3];
    if (remove_prefix(message, "couldn't vectorize loop")) {
      open = &reasons[location];
    } else if (remove_prefix(message, "loop not vectorized")) {
      std::string& reason = reasons[location];
      if (remove_prefix(message, ": ") && reason.empty()) reason = without_ending(message);
    } else if (open != nullptr && remove_prefix(message, "not vectorized: ")) {
      if (open->empty()) *open = without_ending(message);
      open = nullptr;
    }
  }
  return reasons;
}

}  // namespace

std::vector<ScalarLoop> scalar_loops(std::string_view preprocessed, std::string_view report) {
  const Loops reasons = reasons_in(report);
  std::vector<ScalarLoop> loops;
  for (const auto& [location, what] : marked_loops(preprocessed))
    if (const auto found = reasons.find(location); found != reasons.end())
      loops.push_back({what, location, found->second});
  return loops;
}

std::string to_string(const ScalarLoop& loop) {
  return str_cat(loop.what, " (", loop.location.file, ":", loop.location.line,
                 loop.reason.empty() ? "" : ": ", loop.reason, ")");
}

std::string log_of(const std::vector<ScalarLoop>& loops, std::string_view preprocessed) {
  std::string log = log_title(preprocessed);
  for (const ScalarLoop& loop : loops) log += str_cat(kIndent, to_string(loop), "\n");
  return log;
}

std::optional<std::vector<std::string>> loops_in_log(std::string_view log,
                                                     std::string_view preprocessed) {
  const std::string title = log_title(preprocessed);
  const std::size_t at = log.rfind(title);
  if (at == log.npos) return std::nullopt;
  log.remove_prefix(at + title.size());
  std::vector<std::string> loops;
  while (log.starts_with(kIndent)) loops.emplace_back(next_line(log).substr(kIndent.size()));
  return loops;
}

}  // namespace jitstep::jit
