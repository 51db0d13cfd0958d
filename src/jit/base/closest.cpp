#include "jit/base/closest.h"

#include <algorithm>
#include <cctype>

namespace jitstep::jit {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Optimal string alignment distance. Rows of the dynamic program are prefixes of `a`. Only the last three are stored.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string closest(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 100;  // longer names are not typing errors
  if (name.empty() || name.size() > kLongest) return "";
  const std::size_t most = std::min(std::max<std::size_t>(1, name.size() / 3), name.size() - 1);
  std::size_t best = most + 1;
  std::string found;
  for (const std::string& candidate : candidates)
    if (const std::size_t distance = edit_distance(name, candidate); distance < best) {
      best = distance;
      found = candidate;
    }
  return found;
}

}  // namespace jitstep::jit
