#include "support/ptx/text.h"

#include <cctype>

namespace jitstep::ptx {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

bool is_number(const Token& token) {
  return !token.text.empty() && std::isdigit(static_cast<unsigned char>(token.text[0]));
}

Operand read_operand(Tokens& tokens);

// The rest of a list after its opening bracket.
Operand read_list(Tokens& tokens, std::string_view end) {
  Operand list{.kind = Operand::Kind::list, .word = {}};
  while (!tokens.take(end)) {
    list.parts.push_back(read_operand(tokens));
    if (!tokens.at(end)) tokens.expect(",");
  }
  return list;
}

Operand read_address(Tokens& tokens) {
  Operand address{.kind = Operand::Kind::address, .word = {}};
  if (is_number(tokens.peek()))
    address.offset = static_cast<std::int64_t>(read_number(tokens).bits);
  else
    address.word = tokens.next().text;
  if (tokens.take("+")) address.offset += static_cast<std::int64_t>(read_number(tokens).bits);
  tokens.expect("]");
  return address;
}

Operand read_operand(Tokens& tokens) {
  if (tokens.take("{")) return read_list(tokens, "}");
  if (tokens.take("(")) return read_list(tokens, ")");
  if (tokens.take("[")) return read_address(tokens);
  if (tokens.at("-") || is_number(tokens.peek())) return read_number(tokens);
  if (!is_word(tokens.at_end() ? ' ' : tokens.peek().text[0]))
    throw PtxError(tokens.peek().line,
                   "an operand was expected, not '" + std::string(tokens.peek().text) + "'");
  Operand operand{.kind = Operand::Kind::word, .word = std::string(tokens.next().text)};
  if (!tokens.take("|")) return operand;
  Operand pair{.kind = Operand::Kind::list, .word = {}};
  pair.parts = {operand, read_operand(tokens)};
  return pair;
}

}  // namespace

Token Tokens::next() {
  const Token token = now_;
  step();
  return token;
}

bool Tokens::take(std::string_view text) {
  if (!at(text)) return false;
  step();
  return true;
}

void Tokens::expect(std::string_view text) {
  if (!take(text))
    throw PtxError(now_.line, "'" + std::string(text) + "' was expected, not '" +
                                  std::string(now_.text) + "'");
}

void Tokens::skip_spaces() {
  while (offset_ < text_.size()) {
    if (text_.substr(offset_, 2) == "//")
      offset_ = std::min(text_.find('\n', offset_), text_.size());
    else if (text_[offset_] == '\n' || std::isspace(static_cast<unsigned char>(text_[offset_])))
      line_ += text_[offset_++] == '\n';
    else
      break;
  }
}

void Tokens::step() {
  skip_spaces();
  const std::size_t begin = offset_;
  if (offset_ < text_.size() && text_[offset_] == '"') {
    offset_ = std::min(text_.find('"', offset_ + 1), text_.size() - 1) + 1;
  } else if (offset_ < text_.size() && is_word(text_[offset_])) {
    while (offset_ < text_.size() && is_word(text_[offset_])) ++offset_;
  } else if (offset_ < text_.size()) {
    ++offset_;
  }
  now_ = {text_.substr(begin, offset_ - begin), line_};
}

// 12, -1, 0x1f, 0f3F800000 (the bits of a float), 0d3FF0000000000000 (of a double).
Operand read_number(Tokens& tokens) {
  const bool negative = tokens.take("-");
  const Token token = tokens.next();
  const std::string text(token.text);
  Operand number{.kind = Operand::Kind::number, .word = {}};
  std::size_t used = 0;
  try {
    if (text.starts_with("0f") || text.starts_with("0d")) {
      number.digits = text[1] == 'f' ? 32 : 64;
      number.bits = std::stoull(text.substr(2), &used, 16);
      used += 2;
    } else {
      number.bits = std::stoull(text, &used, 0);
      if (used < text.size() && text[used] == 'U') ++used;
    }
  } catch (const std::exception&) {
    used = text.size() + 1;
  }
  if (used != text.size() || (negative && number.digits != 0))
    throw PtxError(token.line, "'" + text + "' is no number");
  if (negative) number.bits = 0 - number.bits;
  return number;
}

Statement read_statement(Tokens& tokens) {
  Statement statement{.line = tokens.peek().line};
  if (tokens.take("@")) {
    statement.negated = tokens.take("!");
    statement.guard = tokens.next().text;
  }
  statement.opcode = tokens.next().text;
  while (!tokens.take(";")) {
    statement.operands.push_back(read_operand(tokens));
    if (!tokens.at(";")) tokens.expect(",");
  }
  return statement;
}

}  // namespace jitstep::ptx
