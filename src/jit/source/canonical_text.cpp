#include "jit/source/canonical_text.h"

#include <algorithm>
#include <array>

#include "jit/base/characters.h"
#include "jit/source/source_lines.h"

namespace jitstep::jit {
namespace {

using View = std::string_view;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
// g++ accepts UTF-8, `$` and escapes such as \u00e9 in identifiers.
bool is_word(char c) {
  return in_word(c) || c == '$' || c == '\\' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_quote(char c) { return c == '"' || c == '\''; }
bool is_operator(char c) { return View("+-*/%&|^<>=!~?:.#").find(c) != View::npos; }

constexpr auto kSpecial = [] {
  std::array<bool, 256> special{};
  for (const char c : View(" \t\n\v\f\r/\"'#")) special[static_cast<unsigned char>(c)] = true;
  return special;
}();

// True if two characters could form one token without a separator.
bool could_join(char a, char b) {
  const bool word = is_word(a) || is_quote(a) || a == '.';
  if (word && (is_word(b) || is_quote(b) || b == '.')) return true;
  return is_operator(a) && is_operator(b);
}

// Removes the backslashes that join a line and the next one, as compilers do before they read tokens.
std::string with_joined_lines(View text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at; (at = text.find("\\\n")) != View::npos; text.remove_prefix(at + 2))
    out += text.substr(0, at);
  out += text;
  return out;
}

// Whether blanks follow a backslash at the end of a line. g++ joins the lines, but not every compiler does.
bool may_join_lines(View text) {
  for (std::size_t at = 0; (at = text.find('\\', at)) != View::npos; ++at) {
    const std::size_t end = text.find_first_not_of(" \t\v\f\r", at + 1);
    if (end != View::npos && end > at + 1 && text[end] == '\n') return true;
  }
  return false;
}

// Whether the code depends on more than its tokens: its position, or the blanks in a raw string literal.
bool reads_layout(View text) {
  constexpr std::array<View, 5> kMarks = {"_LINE", "_COLUMN", "_FILE", "source_location", "R\""};
  return std::any_of(kMarks.begin(), kMarks.end(),
                     [&](View mark) { return text.find(mark) != View::npos; });
}

// A text without line ends after backslashes.
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
    } else if (rest_.starts_with("//")) {
      skip(std::min(rest_.find('\n'), rest_.size()));
    } else if (rest_.starts_with("/*")) {
      skip(std::min(rest_.find("*/", 2), rest_.size() - 2) + 2);
    } else if (line_begins_ && (c == '#' || rest_.starts_with("%:"))) {
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
    const bool first = out_.empty() || out_.back() == '\n';
    if (separated_ && !first &&
        (in_directive_ || could_join(out_.back(), rest_.front()) || could_be_exponent()))
      out_ += ' ';
    separated_ = false;
    out_ += rest_.substr(0, count);
    rest_.remove_prefix(count);
    line_begins_ = out_.back() == '\n';  // after a literal that is not closed
    in_directive_ = in_directive_ && !line_begins_;
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

  // A literal that is not closed ends with its line.
  std::size_t literal() const {
    const char quote = rest_.front();
    std::size_t i = 1;
    while (i < rest_.size() && rest_[i] != quote && rest_[i] != '\n') i += rest_[i] == '\\' ? 2 : 1;
    return std::min(i + 1, rest_.size());
  }

  // Up to the next blank, comment, literal or directive.
  std::size_t plain() const {
    std::size_t i = 1;
    while (i < rest_.size() && !kSpecial[static_cast<unsigned char>(rest_[i])]) ++i;
    return i;
  }

  // True if the next apostrophe is inside a number, as in 1'000 and 1.e1'0.
  bool is_digit_separator() const {
    return !separated_ && rest_.front() == '\'' && ends_in_number(out_.size());
  }

  // True if a sign would join the number before it: `0xe + 1` differs from `0xe+1`, and `1e+ 1` from `1e+1`.
  bool could_be_exponent() const {
    const auto joins = [&](std::size_t end) {
      return end > 0 && View("eEpP").find(out_[end - 1]) != View::npos && ends_in_number(end);
    };
    const auto is_sign = [](char c) { return c == '+' || c == '-'; };
    return is_sign(rest_.front()) ? joins(out_.size())
                                  : is_sign(out_.back()) && joins(out_.size() - 1);
  }

  bool ends_in_number(std::size_t end) const {
    std::size_t begin = end;
    const auto in_number = [](char c) { return is_word(c) || c == '\'' || c == '.'; };
    while (begin > 0 && in_number(out_[begin - 1])) --begin;
    if (begin < end && out_[begin] == '.') ++begin;
    return begin < end && is_digit(out_[begin]);
  }

  View rest_;
  std::string out_;
  bool separated_ = false;
  bool line_begins_ = true;
  bool in_directive_ = false;
};

}  // namespace

std::string canonical_text(View text) {
  const std::string joined = with_joined_lines(text);
  if (may_join_lines(text) || reads_layout(joined)) return std::string(text);
  return Lexer(joined).run();
}

}  // namespace jitstep::jit
