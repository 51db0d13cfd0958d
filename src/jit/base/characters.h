// Classes of ASCII characters, the same in every locale.
#pragma once

namespace jitstep::jit {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
/// The first character of a name: letters and _.
constexpr bool is_word_start(char c) { return is_letter(c) || c == '_'; }
constexpr bool in_word(char c) { return is_word_start(c) || is_digit(c); }

}  // namespace jitstep::jit
