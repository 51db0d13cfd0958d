#include "jit/compiler/resource_report.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace jitstep::jit {
namespace {

// The number before `unit`, as in "24 bytes smem". 0 if the line has no such unit.
int number_before(const std::string& line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string::npos || at == 0) return 0;
  const std::size_t end = line.find_last_of("0123456789", at);
  if (end == std::string::npos) return 0;
  const std::size_t before = line.find_last_not_of("0123456789", end);
  return std::atoi(line.c_str() + (before == std::string::npos ? 0 : before + 1));
}

}  // namespace

std::vector<Resources> parse_resources(const std::string& log) {
  std::vector<Resources> found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    static constexpr std::string_view kEntry = "Compiling entry function '";
    if (const std::size_t at = line.find(kEntry); at != std::string::npos) {
      const std::size_t begin = at + kEntry.size();
      found.emplace_back().entry = line.substr(begin, line.find('\'', begin) - begin);
    }
    if (found.empty()) continue;
    Resources& entry = found.back();
    entry.stack_bytes += number_before(line, " bytes stack frame");
    entry.spill_store_bytes += number_before(line, " bytes spill stores");
    entry.spill_load_bytes += number_before(line, " bytes spill loads");
    entry.registers = std::max(entry.registers, number_before(line, " registers"));
    entry.shared_bytes = std::max(entry.shared_bytes, number_before(line, " bytes smem"));
  }
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.entry < b.entry; });
  return found;
}

}  // namespace jitstep::jit
