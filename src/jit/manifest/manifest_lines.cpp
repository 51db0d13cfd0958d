#include "jit/manifest/manifest_lines.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "jit/base/text.h"
#include "jit/manifest/manifest_code.h"
#include "jit/manifest/manifest_notes.h"
#include "jit/manifest/reserved_names.h"
#include "jit/source/comments.h"
#include "jit/source/source_lines.h"

namespace jitstep::jit {
namespace {

// One line, split into code and comment. `margin`: the blanks before them.
struct Pieces {
  std::string_view code, comment, margin;
  bool has_comment = false;
};

Pieces pieces_of(std::string_view line) {
  Pieces pieces;
  std::size_t at = 0;
  while (at < line.size() && !line.substr(at).starts_with("//"))
    at = begins_literal(line, at) ? after_literal(line, at) : at + 1;
  at = std::min(at, line.size());
  pieces.has_comment = at < line.size();
  pieces.code = trimmed(line.substr(0, at));
  if (pieces.has_comment) pieces.comment = trimmed(line.substr(at + 2));
  pieces.margin = line.substr(0, line.size() - without_indent(line).size());
  return pieces;
}

class Cutter {
  using Position = std::tuple<std::size_t, Location, Pieces, bool>;

  // What next() changes.
  auto position() { return std::tie(at_, location_, here_, continues_); }

 public:
  Cutter(std::string_view content, const std::string& path,
         std::span<const std::string_view> strict, std::span<const std::string> keys)
      : text_(without_block_comments(content)), strict_(strict), keys_(keys), location_{path, 0} {}

  // Checks what does not depend on declarations, except for the end of the braces, which are returned.
  const Braces& check_code() {
    const Position saved = position();
    for (CodeCheck check; next();) {
      const std::string code = without_quotes(here_.code);
      result_.braces.take(code, here_.margin.size(), location_);
      check.take(code, location_);
      result_.code += code + " ";
    }
    position() = saved;
    return result_.braces;
  }

  SourceLines run() {
    check_code();
    bool leading = true;
    while (next()) {
      leading = leading && (here_.code.empty() || here_.code == "#pragma once");
      if (read_refusal()) continue;
      if (!leading) {
        refuse_late_key();
        outside();
      } else if (here_.has_comment && !names_licence(here_.comment)) {
        result_.header.push_back({location_, "", std::string(here_.comment)});
      }
    }
    return std::move(result_);
  }

 private:
  bool next() {
    if (at_ >= text_.size()) return false;
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view line = std::string_view(text_).substr(at_, end - at_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at_ = end + 1;
    ++location_.line;
    if (line.find('\r') != line.npos)
      location_.fail(
          "a line end is a carriage return alone, which compilers do not know. Save the file with "
          "the line ends of Unix or Windows.");
    continues_ = here_.has_comment && here_.code.empty();
    here_ = pieces_of(line);
    if (here_.comment.ends_with("\\"))
      location_.fail("a line cannot end in a backslash, which joins the next one. Remove it.");
    if (const auto problem = foreign_problem(here_.code); !problem.empty()) location_.fail(problem);
    return true;
  }

  void outside() {
    Cursor cursor(here_.code, location_);
    if (here_.code.starts_with("#"))
      count_conditions();
    else if (cursor.take_word("namespace"))
      enclosing(cursor);
    else if (cursor.take_word("struct"))
      structure(cursor);
    else if (here_.code.starts_with("enum class "))
      enumeration();
    else if (here_.code.starts_with("using "))
      assignment("using ", result_.aliases);
    else if (here_.code.starts_with("static constexpr bool "))
      assignment("static constexpr bool ", result_.constants);
  }

  // Reads `// refuse: ...`. A comment that starts with `refuse` without a colon may continue a sentence of the line
  // before. With a comparison in it, it is a misspelled refusal.
  bool read_refusal() {
    const std::string_view comment = here_.comment;
    if (comment.starts_with("refuse:")) {
      if (!here_.code.empty()) location_.fail("`// refuse:` needs its own line. Move it there.");
      result_.refusals.push_back({location_, "", std::string(trimmed(comment.substr(7)))});
      return true;
    }
    const bool sentence = continues_ && comment.find_first_of("<>=!&|") == comment.npos;
    if (here_.code.empty() && !sentence && begins_with_word(comment, "refuse"))
      refuse_note(comment, location_);
    if (here_.code.empty() && comment.find(',') != comment.npos)
      refuse_misspelled_key(comment, {"refuse"}, location_);
    return false;
  }

  // Such a line above the description does not belong to it.
  static bool names_licence(std::string_view comment) {
    return comment.starts_with("SPDX-") || comment.starts_with("Copyright");
  }

  // Keys of the leading comment would have no effect elsewhere, so that they are errors there.
  void refuse_late_key() const {
    if (!here_.has_comment || !here_.code.empty()) return;
    for (const std::string_view piece : pieces_between_spaces(here_.comment))
      for (const std::string& key : keys_)
        if (piece.starts_with(str_cat(key, ": ")))
          location_.fail(
              str_cat("`// ", key, ": ...` must be in the file's leading comment. Move it there."));
  }

  void count_conditions() {
    if (directive(here_.code, "if").data() != nullptr) ++conditions_;
    if (directive(here_.code, "endif").data() != nullptr) --conditions_;
  }

  void refuse_condition(std::string_view what, std::string_view name) const {
    if (conditions_ != 0)
      location_.fail(
          str_cat("`", what, name, "` is inside #if, which is not evaluated. Move it out of it."));
  }

  void enclosing(Cursor& cursor) {
    std::string name(trimmed(cursor.rest()));
    if (!name.ends_with("{") || !name.starts_with("jitstep::")) return;
    name.pop_back();
    if (result_.enclosing)
      location_.fail("a file can declare only one jitstep namespace. Keep one.");
    result_.enclosing = {location_, std::string(trimmed(name)), ""};
  }

  void enumeration() {
    const std::string_view code = here_.code;
    const std::size_t open = code.find('{'), close = code.find('}');
    if (open == code.npos || close == code.npos || close < open) return;
    std::vector<std::string> labels;
    std::string_view list = code.substr(open + 1, close - open - 1);
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      const std::string_view label = trimmed(list.substr(0, comma));
      list.remove_prefix(std::min(comma + 1, list.size()));
      if (!is_word(label)) return;
      labels.emplace_back(label);
    }
    const std::string name(trimmed(code.substr(11, open - 11)));
    if (!is_word(name) || labels.empty()) return;
    refuse_condition("enum class ", name);
    refuse_names(name, labels);
    if (!result_.enums.try_emplace(name, std::move(labels)).second)
      location_.fail(str_cat("`", name, "` is declared twice. Rename one."));
  }

  void refuse_names(const std::string& enumeration, std::vector<std::string> names) const {
    names.push_back(enumeration);
    for (const std::string& name : names)
      if (const auto problem = name_problem(name); !problem.empty())
        location_.fail(str_cat("`", name, "` ", problem, ". Rename it."));
  }

  template <class Map>
  void assignment(std::string_view before, Map& into) {
    const Location location = location_;
    std::string statement(here_.code.substr(before.size()));
    while (statement.ends_with("=") && next()) statement += " " + std::string(here_.code);
    const std::string_view code = statement;
    const std::size_t equals = code.find('=');
    if (equals == code.npos || !code.ends_with(";")) return;
    const std::string_view value = code.substr(equals + 1, code.size() - equals - 2);
    const std::string name(trimmed(code.substr(0, equals)));
    if (name == "Code" || name == "Residual" || name == "random") refuse_condition(before, name);
    into[name].push_back({location, std::string(trimmed(value)), ""});
  }

  // `struct NAME {`, with the fields on the following lines, or all on this one.
  void structure(Cursor& cursor) {
    const std::string_view after = trimmed(cursor.rest());
    const std::size_t end = std::min(after.find_first_of(" \t{:;<"), after.size());
    const std::string name(after.substr(0, end));
    refuse_hidden_name(name, after);
    const std::string_view body = trimmed(after.substr(end));
    const bool strict = std::find(strict_.begin(), strict_.end(), name) != strict_.end();
    if (!is_word(name) || (!strict && !body.starts_with("{"))) return;
    if (!body.starts_with("{")) location_.fail(str_cat("expected `struct ", name, " {`"));
    if (strict) refuse_condition("struct ", name);
    SourceStruct parsed{location_, {}};
    if (body.size() > 1)
      one_line(name, body, strict, parsed);
    else if (strict)
      many_lines(name, parsed);
    else
      loose_lines(parsed);
    if (result_.structs.contains(name)) {
      if (strict) parsed.location.fail(str_cat("`struct ", name, "` is declared twice. Keep one."));
      return;
    }
    result_.structs.emplace(name, std::move(parsed));
  }

  // Attributes and the like before the name would hide it.
  void refuse_hidden_name(const std::string& name, std::string_view after) const {
    if (is_word(name) && name != "alignas") return;
    for (const std::string_view one : strict_)
      if (contains_word(after.substr(0, after.find('{')), one))
        location_.fail(str_cat("expected `struct ", one, " {`"));
  }

  void one_line(const std::string& name, std::string_view body, bool strict, SourceStruct& parsed) {
    std::string_view inside = body.substr(1);
    if (!inside.ends_with("};")) {
      if (strict) location_.fail(str_cat("expected `struct ", name, " {` alone or closed by `};`"));
      return;
    }
    inside = trimmed(inside.substr(0, inside.size() - 2));
    if (!inside.empty())
      parsed.fields.push_back({location_, std::string(inside), std::string(here_.comment)});
  }

  void many_lines(const std::string& name, SourceStruct& parsed) {
    std::string_view margin;  // of the last field
    while (next()) {
      if (read_refusal()) continue;
      if (here_.code == "};") return;
      if (here_.code == "}")
        location_.fail(str_cat("`struct ", name, "` ends in `};`. Add the semicolon."));
      if (!here_.code.empty()) {
        add_line(parsed.fields);
        margin = here_.margin;
      } else if (!parsed.fields.empty() && here_.has_comment && is_deeper(margin)) {
        parsed.fields.back().notes += " " + std::string(here_.comment);  // continued notes
      }
    }
    parsed.location.fail(str_cat("`struct ", name, "` is not closed. Add `};` on its own line."));
  }

  // Whether this line has more indentation. The width of a tab is not known.
  bool is_deeper(std::string_view margin) const {
    if (!here_.margin.starts_with(margin) && !margin.starts_with(here_.margin))
      location_.fail(
          "this comment is indented by other blanks than the declaration above, tabs or spaces. "
          "Indent both by the same ones.");
    return here_.margin.size() > margin.size();
  }

  // Appends a line. A declaration may span several lines, because formatters break long ones. It ends with a semicolon.
  void add_line(std::vector<SourceLine>& fields) const {
    const std::string code(here_.code), comment(here_.comment);
    if (fields.empty() || fields.back().code.ends_with(";")) {
      fields.push_back({location_, code, comment});
      return;
    }
    fields.back().code += " " + code;
    if (!comment.empty()) fields.back().notes += (fields.back().notes.empty() ? "" : " ") + comment;
  }

  // Looks ahead without consuming lines, because the struct's own lines are also part of the file's code.
  void loose_lines(SourceStruct& parsed) {
    const Position saved = position();
    while (next() && here_.code != "};")
      if (!here_.code.empty()) add_line(parsed.fields);
    position() = saved;
  }

  std::string text_;
  std::span<const std::string_view> strict_;
  std::span<const std::string> keys_;
  Location location_;
  std::size_t at_ = 0;
  int conditions_ = 0;  // open #if directives
  Pieces here_;
  bool continues_ = false;  // the previous line is a comment
  SourceLines result_;
};

}  // namespace

SourceLines cut_source(std::string_view content, const std::string& path,
                       std::span<const std::string_view> strict,
                       std::span<const std::string> keys) {
  return Cutter(content, path, strict, keys).run();
}

void check_source(std::string_view content, const std::string& path) {
  Cutter(content, path, {}, {}).check_code().end();
}

}  // namespace jitstep::jit
