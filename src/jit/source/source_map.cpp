#include "jit/source/source_map.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "jit/base/text.h"
#include "jit/source/source_lines.h"

namespace jitstep::jit {
namespace {

std::string numbered_line(int number, std::string_view line) {
  std::string digits = std::to_string(number);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), ' ');
  return str_cat(digits, " | ", line, "\n");
}

int number_at(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The line number after a file name: `:12` (g++, clang) or `(12)` (NVRTC). 0 if there is none.
int line_after(std::string_view text) {
  return text.starts_with(':') || text.starts_with('(') ? number_at(text.substr(1)) : 0;
}

// The line number before a file name in NVRTC's `at line 12 of FILE`. 0 if there is none.
int line_before(std::string_view text) {
  constexpr std::string_view kWords = "at line ";
  const std::size_t at = text.rfind(kWords);
  const bool found = at != std::string_view::npos && text.ends_with(" of ");
  return found ? number_at(text.substr(at + kWords.size())) : 0;
}

// True if a file name may start at `at`, so that it is not the end of a longer path.
bool begins_name(std::string_view line, std::size_t at) {
  return at == 0 || std::string_view(" \t\n(\"'").find(line[at - 1]) != line.npos;
}

// The line number of `file` that a log line names, or 0.
int mentioned(const std::string& file, std::string_view line) {
  const std::size_t at = file.empty() ? std::string_view::npos : line.find(file);
  if (at == std::string_view::npos || !begins_name(line, at)) return 0;
  const int before = line_before(line.substr(0, at));
  return before > 0 ? before : line_after(line.substr(at + file.size()));
}

}  // namespace

Files files_of(std::string_view preprocessed) {
  Files files;
  std::string name;
  int number = 1;
  while (!preprocessed.empty()) {
    const std::string_view line = next_line(preprocessed);
    const std::string_view rest = directive(line, "line");
    const std::size_t quote = rest.find('"');
    if (quote != std::string_view::npos && rest.ends_with('"')) {
      number = number_at(rest);
      name = rest.substr(quote + 1, rest.size() - quote - 2);
    } else {
      files[name][number++] = line;
    }
  }
  return files;
}

std::vector<SourceLocation> locations_of(const Files& files, std::string_view log) {
  std::vector<SourceLocation> locations;
  while (!log.empty()) {
    const std::string_view line = next_line(log);
    for (const auto& [file, lines] : files) {
      const SourceLocation location{file, mentioned(file, line)};
      if (location.line > 0 &&
          std::find(locations.begin(), locations.end(), location) == locations.end())
        locations.push_back(location);
    }
  }
  return locations;
}

std::vector<std::string> file_names(std::string_view preprocessed) {
  std::vector<std::string> names;
  for (const auto& [name, lines] : files_of(preprocessed)) names.push_back(name);
  return names;
}

std::string numbered(std::string_view content) {
  std::string out;
  for (int number = 1; !content.empty(); ++number) out += numbered_line(number, next_line(content));
  return out;
}

std::string numbered_sources(std::string_view preprocessed, std::string_view log) {
  const Files files = files_of(preprocessed);
  std::set<std::string> shown;
  std::string out;
  for (const SourceLocation& location : locations_of(files, log)) {
    if (!shown.insert(location.file).second) continue;
    out += str_cat("---- ", location.file, "\n");
    for (const auto& [number, line] : files.at(location.file)) out += numbered_line(number, line);
  }
  return out;
}

std::string excerpt(std::string_view preprocessed, std::string_view log) {
  constexpr int kLocations = 4, kAround = 3;
  const Files files = files_of(preprocessed);
  std::vector<SourceLocation> locations = locations_of(files, log);
  locations.resize(std::min<std::size_t>(locations.size(), kLocations));
  std::string out;
  for (const SourceLocation& location : locations) {
    const auto& lines = files.at(location.file);
    out += str_cat("---- ", location.file, "\n");
    auto line = lines.lower_bound(location.line - kAround);
    for (; line != lines.end() && line->first <= location.line + kAround; ++line) {
      std::string shown = numbered_line(line->first, line->second);
      if (line->first == location.line) shown[0] = '>';
      out += shown;
    }
  }
  return out;
}

std::string with_shown_names(std::string message, const ShownNames& names) {
  for (const auto& [name, shown] : names) {
    std::size_t at = 0;
    while ((at = message.find(name, at)) != message.npos) {
      const bool whole = begins_name(message, at);
      if (whole) message.replace(at, name.size(), shown);
      at += whole ? shown.size() : name.size();
    }
  }
  return message;
}

}  // namespace jitstep::jit
