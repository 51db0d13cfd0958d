#include "jit/base/text_table.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace jitstep::jit {

std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<std::size_t>& right) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool to_the_right = std::find(right.begin(), right.end(), i) != right.end();
      line += (i == 0 ? "" : "  ") + (to_the_right ? space + row[i] : row[i] + space);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string fixed(double value, int digits) {
  std::array<char, 400> word;  // 1.8e308 has 309 digits before the point
  const auto end = std::to_chars(word.data(), word.data() + word.size(), value,
                                 std::chars_format::fixed, digits);
  return {word.data(), end.ptr};
}

}  // namespace jitstep::jit
