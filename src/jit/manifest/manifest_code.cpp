#include "jit/manifest/manifest_code.h"

#include <algorithm>
#include <utility>

#include "jit/base/characters.h"
#include "jit/base/kernel_language.h"
#include "jit/base/text.h"
#include "jit/manifest/reserved_names.h"

namespace jitstep::jit {
namespace {

using View = std::string_view;
using Words = std::vector<View>;

Words words_of(View code) {
  Words words;
  for (std::size_t at = 0; at < code.size();) {
    std::size_t end = at;
    while (end < code.size() && in_word(code[end])) ++end;
    if (end > at) words.push_back(code.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  return words;
}

bool has(const Words& words, View word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Whether the first word is among these, which spaces separate.
bool begins_with(const Words& words, View starts) {
  return !words.empty() && contains_word(starts, words[0]);
}

// The first non-standard attribute of a line: `gnu::optimize`.
View foreign_attribute(View code) {
  constexpr View kStandard =
      "maybe_unused nodiscard likely unlikely fallthrough no_unique_address noreturn";
  for (std::size_t open; (open = code.find("[[")) != code.npos;) {
    View inside = code.substr(open + 2, code.find("]]", open) - open - 2);
    code.remove_prefix(open + 2);
    while (!inside.empty()) {  // commas separate several attributes
      const View one = inside.substr(0, inside.find(','));
      const Words words = words_of(one);
      if (!words.empty() && !begins_with(words, kStandard)) return trimmed(one);
      inside.remove_prefix(std::min(one.size() + 1, inside.size()));
    }
  }
  return {};
}

void check_directive(View code, const Location& location) {
  constexpr View kAllowed = "include if ifdef ifndef elif else endif error";
  const Words words = words_of(code);
  if (begins_with(words, "include") && code.find('<') != code.npos)
    location.fail(str_cat("a template cannot include system headers. Remove `", code,
                          "`. See the functions that you can use ", kWhereNamesAre));
  if (begins_with(words, kAllowed)) return;
  if (words.size() == 2 && words[0] == "pragma" && words[1] == "once") return;
  const bool guard = words.size() == 2 && words[0] == "define";
  location.fail(str_cat("`", code,
                        "` changes how this file and later files are compiled. Remove it. ",
                        guard ? "Instead of an include guard, use `#pragma once`."
                              : "Write a constant as `static constexpr`."));
}

// Whether a token is a floating-point literal of type long double: 1.5L, 1e3l, 0x1p3L.
bool is_long_literal(View token) {
  const bool number = is_digit(token[0]) || (token[0] == '.' && token.size() > 1);
  if (!number || (token.back() != 'L' && token.back() != 'l')) return false;
  const bool hexadecimal = token.starts_with("0x") || token.starts_with("0X");
  return token.find_first_of(hexadecimal ? ".pP" : ".eE") != View::npos;
}

// The number or word that starts at `at`.
View token_at(View code, std::size_t at) {
  const View digits = code.substr(code[at] == '.' ? at + 1 : at, 1);
  const bool number = !digits.empty() && is_digit(digits[0]);
  std::size_t end = at;
  const auto goes_on = [&] {
    const bool sign = end > at && (code[end] == '+' || code[end] == '-') &&
                      View("eEpP").find(code[end - 1]) != View::npos;
    return in_word(code[end]) || (number && (sign || code[end] == '.' || code[end] == '\''));
  };
  while (end < code.size() && goes_on()) ++end;
  return code.substr(at, std::max<std::size_t>(end - at, 1));
}

// Checks that need only one line.
void check_line(View code, const Location& location) {
  if (code.find('\\') != code.npos)
    location.fail(
        "a backslash in code is an escaped character or joins two lines, which hides what is "
        "compiled. Write the character itself, on one line.");
  if (code.find("R\"") != code.npos)
    location.fail("a raw string literal can hide the rest of the file. Write an ordinary one.");
  if (const View attribute = foreign_attribute(code); !attribute.empty())
    location.fail(
        str_cat("the attribute `", attribute, "` is specific to one compiler. Remove it."));
  for (const View word : {View("thread_local"), View("extern"), View("volatile")})
    if (has(words_of(code), word))
      location.fail(str_cat("`", word, "` reaches beyond one element. Remove it."));
}

// The text after the bracketed part at the start. Empty if the bracket is not closed.
View after_brackets(View text, char open, char close) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == open) ++depth;
    if (text[at] == close && --depth == 0) return trimmed(text.substr(at + 1));
  }
  return {};
}

// Removes leading attributes, `alignas(...)` and access specifiers.
View unmarked(View statement) {
  for (bool again = true; std::exchange(again, false);) {
    for (const View mark : {View("public:"), View("private:"), View("protected:")})
      if (statement.starts_with(mark)) statement.remove_prefix(mark.size()), again = true;
    if (statement.starts_with("[[") && statement.find("]]") != statement.npos)
      statement.remove_prefix(statement.find("]]") + 2), again = true;
    if (statement.starts_with("alignas("))
      statement = after_brackets(statement.substr(7), '(', ')'), again = true;
    statement = trimmed(statement);
  }
  return statement;
}

// Removes a leading `template <...>` too.
View untemplated(View statement) {
  statement = unmarked(statement);
  if (!statement.starts_with("template")) return statement;
  return unmarked(after_brackets(statement, '<', '>'));
}

// Where the value, the arguments or the body begin. A comparison in template arguments is none of them.
std::size_t end_of_head(View statement) {
  std::size_t at = 0;
  while ((at = statement.find_first_of("=({[", at)) != statement.npos) {
    const bool compares =
        statement[at] == '=' && at > 0 &&
        (statement.substr(at, 2) == "==" || View("!<>").find(statement[at - 1]) != View::npos);
    if (!compares) return at;
    at += statement.substr(at, 2) == "==" ? 2 : 1;
  }
  return at;
}

// The part before that.
View head_of(View statement) { return statement.substr(0, end_of_head(statement)); }

// Replaces `decltype(...)`, whose brackets are not those of a function, by a word.
std::string without_type_queries(View statement) {
  std::string out(statement);
  constexpr View kQuery = "decltype";
  for (std::size_t at = 0; (at = out.find("decltype(", at)) != out.npos; ++at)
    if (at == 0 || !in_word(out[at - 1]))
      out.replace(at, out.npos,
                  "type " + std::string(after_brackets(out.substr(at + kQuery.size()), '(', ')')));
  return out;
}

bool is_function(View statement) {
  if (has(words_of(statement), "operator")) return true;
  const std::size_t at = end_of_head(statement);
  if (at == statement.npos || statement[at] != '(') return false;
  const View arguments = trimmed(statement.substr(at + 1));  // `real total(0)` is a variable
  return arguments.empty() || View("0123456789.+-'").find(arguments[0]) == View::npos;
}

bool is_constant(const Words& words) {
  return has(words, "constexpr") || has(words, "const") || has(words, "consteval");
}

// Whether the statement declares or defines a type. `struct Name last` and `struct Name f()` only use one.
bool declares_type(View statement) {
  constexpr View kTypes = "struct class union enum";
  if (!begins_with(words_of(statement), kTypes)) return false;
  for (Words words; begins_with(words = words_of(statement), kTypes);)
    statement = unmarked(trimmed(statement.substr(words[0].size())));
  do {  // the name: jitstep::Name<int>
    statement = trimmed(statement.substr(statement.starts_with("::") ? 2 : 0));
    while (!statement.empty() && in_word(statement[0])) statement.remove_prefix(1);
    statement = trimmed(statement);
    if (statement.starts_with("<")) statement = after_brackets(statement, '<', '>');
  } while (statement.starts_with("::"));
  return statement.empty() || statement.starts_with(":") ||
         begins_with(words_of(statement), "final");
}

// A struct after a `requires` clause.
bool names_structure(View statement) {
  const Words words = words_of(statement);
  return begins_with(words, "requires") && !trimmed(statement).ends_with(")") &&
         (has(words, "struct") || has(words, "class") || has(words, "union"));
}

bool declares_no_variable(View statement) {
  constexpr View kStarts = "namespace using concept friend typedef static_assert";
  const Words words = words_of(statement);
  const bool constrained = begins_with(words, "requires") &&
                           (has(words, "struct") || has(words, "class") || has(words, "concept"));
  return !is_word(statement.substr(0, 1)) || begins_with(words, kStarts) || constrained ||
         declares_type(statement);
}

}  // namespace

// NVRTC computes `long double` as double, and the compilers of CPUs do not.
void CodeCheck::check_long_double(View code, const Location& location) {
  for (std::size_t at = 0; at < code.size();) {
    const View token = token_at(code, at);
    at += token.size();
    if (token == " " || token == "\t" || token == "const") continue;
    if (is_long_literal(token) || (token == "long" && word_ == "double") ||
        (token == "double" && word_ == "long"))
      location.fail("`long double` differs between targets. Write `double`.");
    word_ = token;
  }
}

void CodeCheck::take(View code, const Location& location) {
  check_line(code, location);
  check_long_double(code, location);
  if (code.starts_with("#") || code.starts_with("%:"))
    return check_directive(trimmed(code), location);
  for (const char c : code) read(c, location);
  read(' ', location);
}

// Whether a template argument list is open at the end of a statement that declares a type or an alias.
static bool in_template_arguments(View statement) {
  constexpr View kStarts = "template struct class union using";
  if (!begins_with(words_of(unmarked(statement)), kStarts)) return false;
  int angles = 0, parentheses = 0;
  for (const char c : statement) {
    parentheses += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (parentheses == 0) angles += c == '<' ? 1 : c == '>' ? -1 : 0;
  }
  return angles > 0;
}

// Consumes a braced value inside template arguments. Returns whether `c` belongs to one.
bool CodeCheck::in_value(char c) {
  if (values_ == 0 && (c != '{' || !in_template_arguments(statement_))) return false;
  values_ += c == '{' ? 1 : c == '}' ? -1 : 0;
  return true;
}

void CodeCheck::read(char c, const Location& location) {
  if (in_value(c)) return;
  if (c == '{') return open();
  if (c == ';' || c == '}') {
    end_statement();
    if (c == '}' && !scopes_.empty()) scopes_.pop_back();
    return;
  }
  if (statement_.empty() && c == ' ') return;
  if (statement_.empty()) begin_ = location;
  statement_ += c;
}

void CodeCheck::open() {
  const std::string opened(untemplated(statement_));
  const bool space = has(words_of(head_of(opened)), "namespace");
  end_statement();
  scopes_.push_back(space                                              ? Scope::of_namespace
                    : declares_type(opened) || names_structure(opened) ? Scope::of_structure
                                                                       : Scope::of_function);
}

// Rejects variables that outlive an element. The next element would see their value, and which element is next depends
// on threads and lanes.
void CodeCheck::end_statement() {
  const std::string written(untemplated(std::exchange(statement_, {})));
  const std::string ended = without_type_queries(written);
  const bool local = scope() == Scope::of_function;
  const Words words = words_of(local ? View(ended) : head_of(ended));
  if (declares_no_variable(ended) || is_constant(words)) return;
  const bool outlives = scope() == Scope::of_namespace || has(words, "static");
  if (outlives && (local || !is_function(ended)))
    begin_.fail(
        str_cat("`", trimmed(written),
                "` outlives an element, and elements run in any order. Store it in Slots or ",
                "AuxState, or make it `static constexpr`."));
}

bool assigns_next(View code, View field) {
  const Location nowhere{};
  const std::string member = str_cat(".", field);
  for (std::size_t at = 0; (at = code.find(member, at)) != code.npos; ++at) {
    Cursor cursor(code.substr(at + 1), nowhere);
    if (!cursor.take_word(field)) continue;
    const bool selects = cursor.take(".");
    if (selects && !cursor.take_word("next")) continue;
    const View after = cursor.rest().substr(0, 2);
    const View end = after.substr(0, 1);
    if (end == ")" || end == "," || end == ";") return true;
    const bool simple = end == "=" && after != "==";
    if (selects && (simple || after == "+=" || after == "-=" || after == "*=" || after == "/="))
      return true;
  }
  return false;
}

}  // namespace jitstep::jit
