#include "jit/source/flatten.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <vector>

#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

std::string_view next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
}

// What follows `#word` in a directive line; null data if the line is no such directive.
std::string_view directive(std::string_view line, std::string_view word) {
  line = trimmed(line);
  if (!line.starts_with('#')) return {};
  line = trimmed(line.substr(1));
  if (!line.starts_with(word)) return {};
  return trimmed(line.substr(word.size()));
}

// The name in `#include "name"`, or nothing.
std::string_view included_name(std::string_view line) {
  const std::string_view rest = directive(line, "include");
  if (!rest.starts_with('"')) return {};
  const std::size_t end = rest.find('"', 1);
  return end == std::string_view::npos ? std::string_view() : rest.substr(1, end - 1);
}

class Flattener {
 public:
  explicit Flattener(const TemplateStore& store) : store_(store) {}

  void expand(std::string_view content, const std::string& name) {
    open_.push_back(name);
    done_.insert(name);
    mark(1, name);
    for (int number = 1; !content.empty(); ++number) {
      const std::string_view line = next_line(content);
      if (const std::string_view wanted = included_name(line); !wanted.empty()) {
        include(wanted, name, number);
        mark(number + 1, name);
      } else {
        if (directive(line, "pragma") != "once") out_ += line;
        out_ += '\n';
      }
    }
    open_.pop_back();
  }

  std::string take() { return std::move(out_); }

 private:
  void mark(int line, const std::string& name) {
    out_ += text("#line ", line, " \"", name, "\"\n");
  }

  void include(std::string_view wanted, const std::string& from, int line) {
    namespace fs = std::filesystem;
    const std::string beside =
        (fs::path(from).parent_path() / wanted).lexically_normal().generic_string();
    const std::string at_root = fs::path(wanted).lexically_normal().generic_string();
    for (const std::string& name : {beside, at_root}) {
      if (std::find(open_.begin(), open_.end(), name) != open_.end())
        refuse_cycle(name, from, line);
      if (done_.contains(name)) return;
      if (auto content = store_.find(name)) return expand(*content, name);
    }
    throw Error(text(from, ":", line, ": includes \"", wanted,
                     "\", which is no template: looked for ", beside,
                     beside == at_root ? "" : " and " + at_root,
                     "; give its folder in JITSTEP_TEMPLATES or add it at run time"));
  }

  [[noreturn]] void refuse_cycle(const std::string& name, const std::string& from, int line) const {
    std::string chain;
    for (const std::string& file : open_) chain += file + " -> ";
    throw Error(text(from, ":", line, ": includes \"", name, "\" in a cycle: ", chain, name));
  }

  const TemplateStore& store_;
  std::string out_;
  std::vector<std::string> open_;
  std::set<std::string> done_;
};

std::string numbered_line(int number, std::string_view line) {
  std::string digits = std::to_string(number);
  if (digits.size() < 5) digits.insert(0, 5 - digits.size(), ' ');
  return text(digits, " | ", line, "\n");
}

int number_at(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// What stands behind a file's name: `:12` (g++, clang) or `(12)` (NVRTC); else 0.
int line_after(std::string_view text) {
  return text.starts_with(':') || text.starts_with('(') ? number_at(text.substr(1)) : 0;
}

// What stands before it in NVRTC's `at line 12 of FILE`; else 0.
int line_before(std::string_view text) {
  constexpr std::string_view kWords = "at line ";
  const std::size_t at = text.rfind(kWords);
  const bool found = at != std::string_view::npos && text.ends_with(" of ");
  return found ? number_at(text.substr(at + kWords.size())) : 0;
}

// The file's line that a line of a log names.
int mentioned(const std::string& file, std::string_view line) {
  const std::size_t at = file.empty() ? std::string_view::npos : line.find(file);
  if (at == std::string_view::npos) return 0;
  const bool starts = at == 0 || std::string_view(" \t(\"'").find(line[at - 1]) != line.npos;
  if (!starts) return 0;
  const int before = line_before(line.substr(0, at));
  return before > 0 ? before : line_after(line.substr(at + file.size()));
}

}  // namespace

Files files_of(std::string_view flat) {
  Files files;
  std::string name;
  int number = 1;
  while (!flat.empty()) {
    const std::string_view line = next_line(flat);
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

std::vector<SourcePlace> places_of(const Files& files, std::string_view log) {
  std::vector<SourcePlace> places;
  while (!log.empty()) {
    const std::string_view line = next_line(log);
    for (const auto& [file, lines] : files) {
      const SourcePlace place{file, mentioned(file, line)};
      if (place.line > 0 && std::find(places.begin(), places.end(), place) == places.end())
        places.push_back(place);
    }
  }
  return places;
}

std::string flatten(std::string_view unit_text, const std::string& unit_name,
                    const TemplateStore& store) {
  std::string name = unit_name;  // it stands in quotes on marker lines
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '_');
  Flattener flattener(store);
  flattener.expand(unit_text, name);
  return flattener.take();
}

std::vector<std::string> file_names(std::string_view flat) {
  std::vector<std::string> names;
  for (const auto& [name, lines] : files_of(flat)) names.push_back(name);
  return names;
}

std::string numbered(std::string_view content) {
  std::string out;
  for (int number = 1; !content.empty(); ++number) out += numbered_line(number, next_line(content));
  return out;
}

std::string numbered_sources(std::string_view flat, std::string_view log) {
  const Files files = files_of(flat);
  std::set<std::string> shown;
  std::string out;
  for (const SourcePlace& place : places_of(files, log)) {
    if (!shown.insert(place.file).second) continue;
    out += text("---- ", place.file, "\n");
    for (const auto& [number, line] : files.at(place.file)) out += numbered_line(number, line);
  }
  return out;
}

std::string excerpt(std::string_view flat, std::string_view log) {
  constexpr int kPlaces = 4, kAround = 3;
  const Files files = files_of(flat);
  std::vector<SourcePlace> places = places_of(files, log);
  places.resize(std::min<std::size_t>(places.size(), kPlaces));
  std::string out;
  for (const SourcePlace& place : places) {
    const auto& lines = files.at(place.file);
    out += text("---- ", place.file, "\n");
    auto line = lines.lower_bound(place.line - kAround);
    for (; line != lines.end() && line->first <= place.line + kAround; ++line) {
      std::string shown = numbered_line(line->first, line->second);
      if (line->first == place.line) shown[0] = '>';
      out += shown;
    }
  }
  return out;
}

}  // namespace jitstep::jit
