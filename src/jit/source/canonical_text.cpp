#include "jit/source/canonical_text.h"

#include <algorithm>
#include <array>

#include "jit/source/source_lines.h"

namespace jitstep::jit {
namespace {

using View = std::string_view;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}
bool is_quote(char c) { return c == '"' || c == '\''; }
bool is_operator(char c) { return View("+-*/%&|^<>=!~?:.#").find(c) != View::npos; }

constexpr auto kSpecial = [] {
  std::array<bool, 256> special{};
  for (const char c : View(" \t\n\v\f\r/\"'\\#")) special[static_cast<unsigned char>(c)] = true;
  return special;
}();

// True if two characters could form one token without a separator.
bool could_join(char a, char b) {
  const bool word = is_word(a) || is_quote(a) || a == '.';
  if (word && (is_word(b) || is_quote(b) || b == '.')) return true;
  return is_operator(a) && is_operator(b);
}

class Lexer {
 public:
  explicit Lexer(View text) : rest_(text) {}

  std::string run() {
    out_.reserve(rest_.size());
    while (!rest_.empty()) next();
    return std::move(out_);
  }

 private:
  void next() {
    const char c = rest_.front();
    if (c == '\n') {
      line_begins_ = true;
      end_directive();
      skip(1);
    } else if (is_blank(c)) {
      skip(std::min(rest_.find_first_not_of(' ', 1), rest_.size()));
    } else if (rest_.starts_with("\\\n")) {
      skip(2);
    } else if (rest_.starts_with("//")) {
      skip(end_of_line_comment());
    } else if (rest_.starts_with("/*")) {
      skip(after("*/", 2));
    } else if (c == '#' && line_begins_) {
      begin_directive();
    } else {
      take(is_quote(c) && !is_digit_separator() ? literal() : plain());
    }
  }

  // Drops characters that separate tokens.
  void skip(std::size_t count) {
    separated_ = true;
    rest_.remove_prefix(count);
  }

  // Directives keep single blanks, because `#define f(x)` differs from `#define f (x)`.
  void take(std::size_t count) {
    line_begins_ = false;
    const bool first = out_.empty() || out_.back() == '\n';
    if (separated_ && !first && (in_directive_ || could_join(out_.back(), rest_.front())))
      out_ += ' ';
    separated_ = false;
    out_ += rest_.substr(0, count);
    rest_.remove_prefix(count);
  }

  void begin_directive() {
    if (directive(rest_.substr(0, rest_.find('\n')), "line").data() != nullptr) {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      return;
    }
    if (!out_.empty() && out_.back() != '\n') out_ += '\n';
    in_directive_ = true;
    take(1);
  }

  void end_directive() {
    if (in_directive_) out_ += '\n';
    in_directive_ = false;
  }

  // A backslash at the end of a line continues the comment.
  std::size_t end_of_line_comment() const {
    std::size_t end = rest_.find('\n');
    while (end != View::npos && rest_[end - 1] == '\\') end = rest_.find('\n', end + 1);
    return std::min(end, rest_.size());
  }

  // The offset after `mark`, or the end of the text.
  std::size_t after(View mark, std::size_t from) const {
    const std::size_t at = rest_.find(mark, from);
    return at == View::npos ? rest_.size() : at + mark.size();
  }

  std::size_t literal() const {
    const char quote = rest_.front();
    if (quote == '"' && !separated_ && out_.ends_with('R')) return raw_literal();
    std::size_t i = 1;
    while (i < rest_.size() && rest_[i] != quote && rest_[i] != '\n') i += rest_[i] == '\\' ? 2 : 1;
    return std::min(i + 1, rest_.size());
  }

  std::size_t raw_literal() const {
    const std::size_t open = rest_.find('(');
    if (open == View::npos) return rest_.size();
    std::string close(1, ')');
    close += rest_.substr(1, open - 1);
    close += '"';
    return after(close, open);
  }

  // Up to the next blank, comment, literal or directive.
  std::size_t plain() const {
    std::size_t i = 1;
    while (i < rest_.size() && !kSpecial[static_cast<unsigned char>(rest_[i])]) ++i;
    return i;
  }

  // True if the next apostrophe is inside a number, as in 1'000.
  bool is_digit_separator() const {
    if (separated_ || rest_.front() != '\'') return false;
    std::size_t begin = out_.size();
    while (begin > 0 && (is_word(out_[begin - 1]) || out_[begin - 1] == '\'')) --begin;
    return begin < out_.size() && is_digit(out_[begin]);
  }

  View rest_;
  std::string out_;
  bool separated_ = false;
  bool line_begins_ = true;
  bool in_directive_ = false;
};

}  // namespace

std::string canonical_text(View text) {
  for (const View own : {"__LINE__", "__FILE__"})
    if (text.find(own) != View::npos) return std::string(text);
  return Lexer(text).run();
}

}  // namespace jitstep::jit
