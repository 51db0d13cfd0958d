#include "jit/compiler/compiler_identity.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "jit/base/text.h"

namespace jitstep::jit {
namespace {

// True for words on the command line of the compiler proper that may change results, whoever added them: jitstep, the
// distribution or a wrapper. False for header folders and for words of the ISA line.
bool is_option(const std::string& word) {
  return word.size() > 1 && word.starts_with('-') && !word.starts_with("-internal-") &&
         word != "-target-feature";
}

// True for an option of the compiler proper with which a formula has other results.
bool is_loose(const std::string& word) {
  if (word.starts_with("-mfpmath=")) return word != "-mfpmath=sse";
  if (word.starts_with("-fdenormal-fp-math"))
    return !word.ends_with("=ieee") && !word.ends_with("=ieee,ieee");
  static constexpr std::string_view kLoose[] = {"-ffast-math",
                                                "-Ofast",
                                                "-funsafe-math-optimizations",
                                                "-fassociative-math",
                                                "-freciprocal-math",
                                                "-ffinite-math-only",
                                                "-frounding-math",
                                                "-menable-unsafe-fp-math",
                                                "-mreassociate",
                                                "-fno-signed-zeros",
                                                "-fsingle-precision-constant",
                                                "-fno-honor-nans",
                                                "-fno-honor-infinities",
                                                "-menable-no-nans",
                                                "-menable-no-infs",
                                                "-fapprox-func",
                                                "-mdaz-ftz"};
  return std::find(std::begin(kLoose), std::end(kLoose), word) != std::end(kLoose);
}

}  // namespace

std::string resolved_identity(const std::string& report) {
  std::istringstream lines(report);
  std::string line, version, isa, arrived;
  while (std::getline(lines, line)) {
    if (line.starts_with("gcc version") || line.find("clang version") != std::string::npos ||
        line.starts_with("Target:")) {
      version += line + "\n";
    }
    const bool gcc = line.find("/cc1plus") != std::string::npos;
    if ((!gcc && line.find(" -cc1 ") == std::string::npos) || !isa.empty()) continue;
    std::istringstream words(line);
    for (std::string word, before; words >> word; before = word) {
      const bool operand = before == "-D" || before == "-U" || before == "-include" ||
                           before == "-imacros" || before == "-mllvm" || before == "-A";
      const bool value = before == "--param" || before == "-target-cpu" ||
                         before == "-target-feature" || before == "-tune-cpu";
      if (value || (gcc && (word.starts_with("-m") || word.starts_with("--param=")))) {
        isa += " " + word;
      } else if (operand) {
        arrived += " " + word;
      } else if (is_option(word)) {
        arrived += " " + word.substr(0, word.find('/'));
      }
    }
  }
  return version.empty() ? "" : str_cat(version, "isa:", isa, "\narrived:", arrived, "\n");
}

std::string loose_arithmetic(const std::string& identity) {
  const std::size_t arrived = identity.find("\narrived:");
  const std::size_t begin = std::min(identity.find("\nisa:"), arrived);
  if (arrived == identity.npos) return {};
  std::istringstream words(identity.substr(begin, identity.find('\n', arrived + 1) - begin));
  std::string contraction = "off";
  for (std::string word; words >> word;) {
    if (is_loose(word)) return word;
    if (word.starts_with("-ffp-contract=")) contraction = word.substr(word.find('=') + 1);
  }
  return contraction == "off" ? "" : "-ffp-contract=" + contraction;
}

std::string cpu_in(const std::string& identity) {
  constexpr std::string_view kOption = " -march=";
  const std::size_t options = identity.rfind("\noptions:");
  const std::size_t at = options == identity.npos ? options : identity.find(kOption, options);
  if (at == identity.npos) return {};
  const std::size_t begin = at + kOption.size();
  return identity.substr(begin, identity.find(' ', begin) - begin);
}

}  // namespace jitstep::jit
