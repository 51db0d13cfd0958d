#include "markdown.h"

#include <jit/base/text.h>

namespace jitstep::reference {
namespace {

// Escapes `|`, which would end the cell, also inside code.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string line(const std::vector<std::string>& cells) {
  return "| " + jit::joined(cells, " | ", cell) + " |\n";
}

}  // namespace

std::string table(const Rows& rows) {
  if (rows.size() < 2) return "";
  std::string out = line(rows[0]) + "|";
  for (std::size_t i = 0; i < rows[0].size(); ++i) out += "---|";
  out += "\n";
  for (std::size_t i = 1; i < rows.size(); ++i) out += line(rows[i]);
  return out + "\n";
}

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

std::string link_to_rule(const std::string& rule) {
  return jit::str_cat("[", rule, "](../optimizers/", rule, ".md)");
}

}  // namespace jitstep::reference
