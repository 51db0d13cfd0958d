// Classes of ASCII characters, the same in every locale.
#pragma once

namespace jitstep::jit {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
/// Letters, digits and _.
constexpr bool in_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

}  // namespace jitstep::jit
