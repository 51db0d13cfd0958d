#include "jit/compiler/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

namespace jitstep::jit {
namespace {

// One spelling for g++'s -msse4.1, clang's +sse4.1 and Linux' sse4_1.
std::string plain(std::string_view feature) {
  std::string name;
  for (char c : feature) {
    if (c != '_' && c != '.' && c != '-') name += c;
  }
  static const std::map<std::string, std::string> linux_names = {
      {"sse3", "pni"},    {"bmi", "bmi1"},         {"lzcnt", "abm"},
      {"sahf", "lahflm"}, {"rdrnd", "rdrand"},     {"prfchw", "3dnowprefetch"},
      {"sha", "shani"},   {"pclmul", "pclmulqdq"}, {"crc32", "sse42"},
      {"64bit", "lm"},    {"x87", "fpu"}};
  const auto other = linux_names.find(name);
  return other == linux_names.end() ? name : other->second;
}

std::set<std::string> features_of(std::string_view cpuinfo) {
  std::set<std::string> features;
  const std::size_t at = cpuinfo.find("\nflags");
  if (at == std::string_view::npos) return features;
  std::istringstream words(
      std::string(cpuinfo.substr(at + 1, cpuinfo.find('\n', at + 1) - at - 1)));
  for (std::string word; words >> word;) features.insert(plain(word));
  return features;
}

// The feature a word of the isa line asks for; empty if it asks for none. Clang writes +bmi and, of
// what is absent, -mwaitx; g++ writes -mbmi and -mno-mwaitx.
std::string_view feature_of(std::string_view word, bool clang) {
  if (word == "-mshstk" || word == "+shstk") return {};  // nothing that older machines lack
  // Never in code that does not ask for it by name. Linux hides it where the processor's is broken.
  if (word == "-mrdseed" || word == "+rdseed") return {};
  if (clang) return word.starts_with("+") ? word.substr(1) : std::string_view();
  if (word.starts_with("-mno-") || word.find('=') != std::string_view::npos) return {};
  return word.starts_with("-m") ? word.substr(2) : std::string_view();
}

}  // namespace

std::string this_processor() {
#if defined(__x86_64__)
  // Vendor and model, features, which registers the system saves, sizes of caches: what g++ and clang read.
  static constexpr struct {
    unsigned leaf, part;
  } kLeaves[] = {{0, 0},          {1, 0},          {2, 0},          {4, 0},
                 {4, 1},          {4, 2},          {4, 3},          {7, 0},
                 {7, 1},          {0xd, 0},        {0xd, 1},        {0x14, 0},
                 {0x19, 0},       {0x1e, 1},       {0x24, 0},       {0x80000000, 0},
                 {0x80000001, 0}, {0x80000005, 0}, {0x80000006, 0}, {0x80000008, 0}};
  std::ostringstream words;
  words << std::hex;
  for (const auto& [leaf, part] : kLeaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf, part, &a, &b, &c, &d);
    if (leaf == 1) b &= 0xff00;  // without the number of the core
    words << a << ' ' << b << ' ' << c << ' ' << d << ' ';
  }
  return words.str();
#else
  return {};
#endif
}

bool machine_runs(std::string_view identity, std::string_view cpuinfo) {
  const std::size_t at = identity.find("isa: ");
  const std::set<std::string> have = features_of(cpuinfo);
  if (at == std::string_view::npos || have.empty()) return false;
  const std::string line(identity.substr(at + 4, identity.find('\n', at) - at - 4));
  const bool clang = line.find(" +") != std::string::npos;
  bool any = false;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::string_view feature = feature_of(word, clang);
    if (feature.empty()) continue;
    if (!have.contains(plain(feature))) return false;
    any = true;
  }
  return any;
}

bool this_machine_runs(std::string_view identity) {
  std::ifstream in("/proc/cpuinfo");
  return machine_runs(identity, std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace jitstep::jit
