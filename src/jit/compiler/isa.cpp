#include "jit/compiler/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <fstream>
#include <iterator>
#include <locale>
#include <memory>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "jit/base/first_words.h"
#include "jit/base/lock_free_static.h"

namespace jitstep::jit {
namespace {

// One spelling for g++'s -msse4.1, clang's +sse4.1 and Linux's sse4_1.
std::string plain(std::string_view feature) {
  std::string name;
  for (char c : feature) {
    if (c != '_' && c != '.' && c != '-') name += c;
  }
  static constexpr std::pair<std::string_view, std::string_view> kLinuxNames[] = {
      {"sse3", "pni"},    {"bmi", "bmi1"},         {"lzcnt", "abm"},
      {"sahf", "lahflm"}, {"rdrnd", "rdrand"},     {"prfchw", "3dnowprefetch"},
      {"sha", "shani"},   {"pclmul", "pclmulqdq"}, {"crc32", "sse42"},
      {"64bit", "lm"},    {"x87", "fpu"}};
  const auto other = std::find_if(std::begin(kLinuxNames), std::end(kLinuxNames),
                                  [&](const auto& one) { return one.first == name; });
  return other == std::end(kLinuxNames) ? name : std::string(other->second);
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

// True for a feature of clang that tells which instructions are fast, and not which exist. `zig cc` lists them.
bool only_tunes(std::string_view feature) {
  static constexpr std::string_view kPrefixes[] = {"fast", "slow-",        "false-deps-", "prefer-",
                                                   "idiv", "allow-light-", "tuning-"};
  static constexpr std::string_view kNames[] = {"branchfusion", "macrofusion", "sbb-dep-breaking",
                                                "vzeroupper"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view one) { return feature.starts_with(one); }) ||
         std::find(std::begin(kNames), std::end(kNames), feature) != std::end(kNames);
}

// The feature that a word of the isa line requires. Empty if it requires none. clang writes +bmi, and -mwaitx for
// absent features. g++ writes -mbmi and -mno-mwaitx.
std::string_view feature_of(std::string_view word, bool clang) {
  if (word == "-mshstk" || word == "+shstk") return {};  // old machines ignore it
  // Compilers use them only by intrinsics. Linux does not list them, or hides them where they are broken.
  static constexpr std::string_view kIntrinsics[] = {"rdseed", "ptwrite", "hreset",    "uintr",
                                                     "kl",     "widekl",  "prefetchi", "raoint"};
  const std::string_view name = word.substr(word.starts_with("-m")  ? 2
                                            : word.starts_with("+") ? 1
                                                                    : 0);
  if (std::find(std::begin(kIntrinsics), std::end(kIntrinsics), name) != std::end(kIntrinsics))
    return {};
  if (clang)
    return word.starts_with("+") && !only_tunes(word.substr(1)) ? word.substr(1)
                                                                : std::string_view();
  if (word.starts_with("-mno-") || word.find('=') != std::string_view::npos) return {};
  return word.starts_with("-m") ? word.substr(2) : std::string_view();
}

// The levels of the x86-64 ABI, each with its features in addition to the previous level, by Linux's names. A compiler
// for such a level lists no features.
struct Baseline {
  std::string_view name, features;
};

constexpr Baseline kBaselines[] = {{"x86-64", "lm cmov cx8 fpu fxsr mmx sse sse2"},
                                   {"x86-64-v2", "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"},
                                   {"x86-64-v3", "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"},
                                   {"x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"}};

void add_baseline(int level, std::set<std::string>& features) {
  for (int i = 0; i < level; ++i) {
    std::istringstream words{std::string(kBaselines[i].features)};
    for (std::string word; words >> word;) features.insert(plain(word));
  }
}

// All features that code of this identity may use.
std::set<std::string> features_needed(std::string_view identity) {
  std::set<std::string> features;
  const std::size_t at = identity.find("isa: ");
  if (at == std::string_view::npos) return features;
  const std::string line(identity.substr(at + 4, identity.find('\n', at) - at - 4));
  const bool clang = line.find(" +") != std::string::npos;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const std::string_view cpu =
        word.starts_with("-march=") ? std::string_view(word).substr(7) : std::string_view(word);
    add_baseline(baseline_level(cpu), features);
    if (const std::string_view feature = feature_of(word, clang); !feature.empty())
      features.insert(plain(feature));
  }
  return features;
}

std::unique_ptr<const std::string> cpuinfo() {
  std::ifstream in("/proc/cpuinfo");
  return std::make_unique<const std::string>(std::istreambuf_iterator<char>(in),
                                             std::istreambuf_iterator<char>());
}

}  // namespace

std::string this_processor() {
#if defined(__x86_64__)
  // What g++ and clang read: vendor and model, features, saved registers, cache sizes.
  static constexpr struct {
    unsigned leaf, part;
  } kLeaves[] = {{0, 0},          {1, 0},          {2, 0},          {4, 0},
                 {4, 1},          {4, 2},          {4, 3},          {7, 0},
                 {7, 1},          {0xd, 0},        {0xd, 1},        {0x14, 0},
                 {0x19, 0},       {0x1e, 1},       {0x24, 0},       {0x80000000, 0},
                 {0x80000001, 0}, {0x80000005, 0}, {0x80000006, 0}, {0x80000008, 0}};
  std::ostringstream words;
  words.imbue(std::locale::classic());
  words << std::hex;
  for (const auto& [leaf, part] : kLeaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf, part, &a, &b, &c, &d);
    if (leaf == 1) b &= 0xff00;  // without the core's number
    words << a << ' ' << b << ' ' << c << ' ' << d << ' ';
  }
  return words.str();
#else
  return {};
#endif
}

int baseline_level(std::string_view cpu) {
  const auto found = std::find_if(std::begin(kBaselines), std::end(kBaselines),
                                  [&](const Baseline& one) { return one.name == cpu; });
  return found == std::end(kBaselines) ? 0 : static_cast<int>(found - kBaselines) + 1;
}

std::string machine_lacks(std::string_view identity, std::string_view cpuinfo) {
  constexpr std::size_t kShown = 6;
  const std::set<std::string> have = features_of(cpuinfo), needed = features_needed(identity);
  if (have.empty() || needed.empty()) return "unknown features";
  std::vector<std::string> lacking;
  std::set_difference(needed.begin(), needed.end(), have.begin(), have.end(),
                      std::back_inserter(lacking));
  return first_words(std::move(lacking), kShown, " ");
}

std::string this_machine_lacks(std::string_view identity) {
  return machine_lacks(identity, lock_free_static<cpuinfo>());
}

}  // namespace jitstep::jit
