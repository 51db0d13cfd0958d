#include "jit/source/preprocess.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "jit/base/text.h"
#include "jit/source/comments.h"
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

// By how much a line changes the number of open #if directives.
int opened_conditions(std::string_view line) {
  if (directive(line, "if").data() != nullptr) return 1;
  return directive(line, "endif").data() != nullptr ? -1 : 0;
}

class Preprocessor {
 public:
  // `newest`: ignores the versions that the store has of loaded files' includes.
  explicit Preprocessor(const TemplateStore& store, bool newest = false)
      : store_(store), newest_(newest) {}

  void expand(std::string_view content, const std::string& name) {
    open_.push_back(name);
    done_.insert(name);
    mark(1, name);
    const std::string code = without_block_comments(content);
    std::string_view rest = code;
    int conditions = 0;
    for (int number = 1; !content.empty(); ++number) {
      const std::string_view line = next_line(content), in_code = next_line(rest);
      conditions += opened_conditions(in_code);
      const std::string_view wanted = included_name(line);
      if (!wanted.empty() && wanted == included_name(in_code)) {
        if (conditions > 0) throw_conditional_error(wanted, name, number);
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
  Texts take_included() { return std::move(included_); }

 private:
  void mark(int line, const std::string& name) {
    out_ += str_cat("#line ", line, " \"", name, "\"\n");
  }

  void include(std::string_view wanted, const std::string& from, int line) {
    namespace fs = std::filesystem;
    const std::string relative =
        (fs::path(from).parent_path() / wanted).lexically_normal().generic_string();
    const std::string from_root = fs::path(wanted).lexically_normal().generic_string();
    for (const std::string& stored : {relative, from_root}) {
      const std::string name(without_revision(stored));
      if (std::find(open_.begin(), open_.end(), name) != open_.end())
        throw_cycle_error(name, from, line);
      if (done_.contains(name)) return;
      if (const auto content = find(stored)) return expand_included(*content, stored);
    }
    throw Error(str_cat(from, ":", line, ": cannot find the include \"", wanted,
                        "\": there is no template ", relative,
                        relative == from_root ? "" : " and no template " + from_root,
                        ". Copy the code into this file, or put the included file there in a ",
                        "folder, and name that folder in JITSTEP_TEMPLATES."));
  }

  std::optional<std::string> find(const std::string& stored) const {
    if (newest_) return store_.data().find_newest(stored);
    if (loaded_ != nullptr) {
      const auto then = loaded_->includes.find(stored);
      if (then != loaded_->includes.end()) return then->second;
    }
    return store_.find(stored);
  }

  void expand_included(const std::string& content, const std::string& stored) {
    const std::string name(without_revision(stored));
    included_[name] = content;
    const auto outer = loaded_;
    if (loaded_ == nullptr && !newest_) loaded_ = store_.data().loaded(stored);
    expand(content, name);
    loaded_ = outer;
  }

  // The compiler may leave out the lines of an #if, which would leave out the only copy of the file.
  [[noreturn]] static void throw_conditional_error(std::string_view wanted, const std::string& from,
                                                   int line) {
    throw Error(str_cat(from, ":", line, ": the include \"", wanted,
                        "\" is inside #if, which is not evaluated. Move it out of it. Instead of ",
                        "an include guard, use #pragma once."));
  }

  [[noreturn]] void throw_cycle_error(const std::string& name, const std::string& from,
                                      int line) const {
    std::string chain;
    for (const std::string& file : open_) chain += file + " -> ";
    throw Error(
        str_cat(from, ":", line, ": the include \"", name, "\" forms a cycle: ", chain, name));
  }

  const TemplateStore& store_;
  bool newest_;
  std::shared_ptr<const LoadedFile> loaded_;  // the user's file that is being expanded, if any
  Texts included_;
  std::string out_;
  std::vector<std::string> open_;
  std::set<std::string> done_;
};

}  // namespace

std::string_view without_revision(std::string_view name) {
  const std::size_t at = name.rfind(".cuh@");
  return at == name.npos ? name : name.substr(0, at + 4);
}

std::string preprocess(std::string_view translation_unit, const std::string& unit_name,
                       const TemplateStore& store, Texts& included) {
  std::string name = unit_name;  // the name is quoted in #line markers
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '"' || c == '\\' || c < ' '; }, '_');
  Preprocessor preprocessor(store);
  preprocessor.expand(translation_unit, name);
  included = preprocessor.take_included();
  return preprocessor.take();
}

std::string preprocess(std::string_view translation_unit, const std::string& unit_name,
                       const TemplateStore& store) {
  Texts included;
  return preprocess(translation_unit, unit_name, store, included);
}

Texts newest_includes(std::string_view content, const std::string& name,
                      const TemplateStore& store) {
  Preprocessor preprocessor(store, true);
  preprocessor.expand(content, name);
  return preprocessor.take_included();
}

}  // namespace jitstep::jit
