#include "jit/manifest/manifest_cursor.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jit/base/characters.h"
#include "jit/base/text.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {

// A quoted line may be very long or contain control characters. A long message is shortened in the middle, because the
// fix is at its end.
void Location::fail(const std::string& what) const {
  constexpr std::size_t kFirst = 240, kLast = 150;
  std::string shown = what.size() > kFirst + kLast
                          ? str_cat(first_bytes(what, kFirst), "...", last_bytes(what, kLast))
                          : what;
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c >= 0 && c < ' '; }, '?');
  throw Error(str_cat(path, ":", line, ": ", shown));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

void Cursor::skip_spaces() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
}

bool Cursor::take(std::string_view token) {
  skip_spaces();
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

bool Cursor::take_word(std::string_view word) {
  skip_spaces();
  const std::string_view left = text_.substr(at_);
  if (!left.starts_with(word)) return false;
  if (left.size() > word.size() && in_word(left[word.size()])) return false;
  at_ += word.size();
  return true;
}

void Cursor::expect(std::string_view token) {
  if (!take(token)) fail(str_cat("`", token, "`"));
}

std::string Cursor::identifier(const std::string& what) {
  skip_spaces();
  const std::size_t begin = at_;
  std::size_t end = begin;
  while (end < text_.size() && (is_word_start(text_[end]) || (end > begin && is_digit(text_[end]))))
    ++end;
  if (end == begin) fail(what);
  at_ = end;
  return std::string(text_.substr(begin, end - begin));
}

double Cursor::number() {
  skip_spaces();
  const std::string_view left = text_.substr(at_);
  const std::string_view digits = left.starts_with("-") ? left.substr(1) : left;
  const bool octal = digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]);
  const bool starts = !digits.empty() && (is_digit(digits[0]) || digits[0] == '.');
  double x = 0;
  const auto [end, problem] = std::from_chars(left.data(), left.data() + left.size(), x);
  if (octal || !starts || problem != std::errc() || !std::isfinite(x))
    fail("a finite decimal number");
  at_ += static_cast<std::size_t>(end - left.data());
  if (at_ < text_.size() && (is_word_start(text_[at_]) || text_[at_] == '\''))
    fail("a decimal number without a suffix");
  return x;
}

int Cursor::integer(int low, int high) {
  skip_spaces();
  const std::size_t begin = at_;
  const double x = number();
  if (x >= low && x <= high && x == std::floor(x)) return static_cast<int>(x);
  at_ = begin;  // the message shows the number
  fail(str_cat("an integer from ", low, " to ", high));
}

bool Cursor::at_end() {
  skip_spaces();
  return at_ >= text_.size();
}

void Cursor::expect_end() {
  if (!at_end()) fail("nothing more");
}

void Cursor::end_declaration() {
  expect(";");
  expect_end();
}

std::string_view Cursor::rest() {
  skip_spaces();
  return text_.substr(at_);
}

void Cursor::fail(const std::string& expected) {
  const std::string_view left = rest();
  location_.fail(str_cat("expected ", expected, ", found ",
                         left.empty() ? std::string("the end") : str_cat("`", left, "`"), " in `",
                         text_, "`"));
}

std::string read_name(std::string_view value, const Location& location, const char* what) {
  Cursor cursor(value, location);
  std::string name = cursor.identifier(what);
  cursor.expect_end();
  return name;
}

}  // namespace jitstep::jit
