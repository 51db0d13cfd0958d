#include "jit/source/flatten.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "jit/base/text.h"
#include "jit/source/source_lines.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

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

}  // namespace

std::string flatten(std::string_view unit_text, const std::string& unit_name,
                    const TemplateStore& store) {
  std::string name = unit_name;  // it stands in quotes on marker lines
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '_');
  Flattener flattener(store);
  flattener.expand(unit_text, name);
  return flattener.take();
}

}  // namespace jitstep::jit
