// Manifests that were cut, mixed and stretched. The reader must accept them or throw an error with the line. It must
// not crash.
#include <gtest/gtest.h>

#include <random>

#include "jit/base/text.h"
#include "jit/manifest/manifest_reader.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {
namespace {

using Kind = Manifest::Kind;
using Lines = std::vector<std::string>;

struct Sample {
  std::string path;
  Kind kind;
  Lines lines;
};

Lines lines_of(const std::string& content) {
  Lines lines;
  std::size_t at = 0;
  while (at < content.size()) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    lines.push_back(content.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> made;
    const TemplateStore store;
    const auto add = [&](const std::string& path, Kind kind) {
      made.push_back({path, kind, lines_of(*store.find(path))});
    };
    add("lang/gradient.cuh", Kind::gradient);
    for (const auto& path : store.list("rules/")) add(path, Kind::rule);
    for (const auto& path : store.list("codecs/"))
      if (!path.starts_with("codecs/support/")) add(path, Kind::codec);
    for (const auto& path : store.list("weights/")) add(path, Kind::weights);
    return made;
  }();
  return all;
}

// Fragments with numbers, names, brackets or bytes that may confuse a reader.
const Lines& odd_pieces() {
  static const Lines pieces = {"1e999999",
                               "-1e-999999",
                               "1e5000000000",
                               "99999999999999999999999999",
                               "0x",
                               "1'000",
                               "nan",
                               "Numbers<999999999>",
                               "Numbers<-1>",
                               "Numbers<1e9> x = {",
                               "axis<99999999999>",
                               "\r",
                               "\t",
                               "\xef\xbb\xbf",
                               "\xc3\xa4\xf0\x9f\x98\x80",
                               "\xff\xfe",
                               std::string(1, '\0'),
                               "//",
                               "/*",
                               "*/",
                               "\"",
                               "'",
                               "\\",
                               "{",
                               "}",
                               "};",
                               "<",
                               ">",
                               ";",
                               ",",
                               ":",
                               "::",
                               "#if",
                               "#endif",
                               "struct Hyper {",
                               "struct Slots {",
                               "struct Reductions {",
                               "// refuse: ",
                               "lifted: ",
                               "initial: ",
                               "if ",
                               "after: ",
                               "in [",
                               "power of two",
                               "null",
                               "true",
                               "&&",
                               "||",
                               "!",
                               "==",
                               "class: ",
                               "for: ",
                               std::string(40000, '('),
                               std::string(40000, '!'),
                               std::string(100000, 'x'),
                               std::string(100000, ' '),
                               std::string(30000, '{')};
  return pieces;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string mutated(const Sample& sample) {
    Lines lines = sample.lines;
    for (std::size_t edits = 1 + below(6); edits > 0; --edits) edit(lines);
    const std::string end = below(8) == 0 ? "\r\n" : "\n";
    std::string content = below(16) == 0 ? "\xef\xbb\xbf" : "";
    for (const auto& line : lines) content += line + end;
    return content;
  }

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  std::string& any(Lines& lines) {
    if (lines.empty()) lines.emplace_back();
    return lines[below(lines.size())];
  }

  void edit(Lines& lines) {
    std::string& line = any(lines);
    const auto at = lines.begin() + static_cast<std::ptrdiff_t>(below(lines.size()));
    switch (below(9)) {
      case 0:
        std::swap(line, any(lines));
        return;
      case 1:
        lines.insert(at, std::string(line));
        return;
      case 2:
        lines.erase(at);
        return;
      case 3:
        return splice(lines);
      case 4:
        return remove_token(line);
      case 5:
        line.insert(below(line.size() + 1), odd_pieces()[below(odd_pieces().size())]);
        return;
      case 6:
        line.insert(below(line.size() + 1), 1, static_cast<char>(random_()));
        return;
      case 7:
        if (!line.empty()) line[below(line.size())] = static_cast<char>(random_());
        return;
      default:
        line += line;
    }
  }

  // Replaces the rest of this file by the end of another one.
  void splice(Lines& lines) {
    const Lines& other = samples()[below(samples().size())].lines;
    const auto from = other.begin() + static_cast<std::ptrdiff_t>(below(other.size()));
    lines.resize(below(lines.size()));
    lines.insert(lines.end(), from, other.end());
  }

  void remove_token(std::string& line) {
    const std::size_t start = line.find_first_not_of(' ', below(line.size() + 1));
    if (start == line.npos) return;
    line.erase(start, std::max<std::size_t>(1, line.find_first_of(" <>=,;{}()", start) - start));
  }

  std::mt19937 random_;
};

TEST(ManifestFuzz, DamagedFilesAreReadOrThrowWithFileAndLine) {
  constexpr int kTries = 6000;
  Mutator mutator(20);
  int read = 0, refused = 0;
  for (int i = 0; i < kTries; ++i) {
    const Sample& sample = samples()[mutator.below(samples().size())];
    const std::string content = mutator.mutated(sample);
    try {
      read_manifest(content, sample.path, sample.kind);
      ++read;
    } catch (const Error& error) {
      ++refused;
      const std::string what = error.what(), begin = sample.path + ":";
      ASSERT_TRUE(what.starts_with(begin)) << what;
      const int line = std::atoi(what.c_str() + begin.size());
      const auto lines = std::count(content.begin(), content.end(), '\n') + 1;
      ASSERT_TRUE(line >= 1 && line <= lines) << what;
      ASSERT_LT(what.size(), 1000u) << what.substr(0, 2000);
    }
  }
  EXPECT_GT(read,
            kTries / 20);  // otherwise mutations destroy too much to get past the first errors
  EXPECT_GT(refused, kTries / 20);
}

}  // namespace
}  // namespace jitstep::jit
