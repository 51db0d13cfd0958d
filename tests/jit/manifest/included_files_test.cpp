// Files of users that a rule or codec includes follow the same rules as the rule or codec.
#include <gtest/gtest.h>

#include "jit/base/text.h"
#include "jit/fixtures.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using testing::TemporaryFolder;

constexpr char kRule[] =
    "#pragma once\n#include \"../lang/contract.cuh\"\n#include \"helper.cuh\"\n"
    R"(namespace jitstep::rules::plain {
struct Rule {
  KHD static void update_param(auto& e, const auto&) { e.p -= half(e.g); }
};
}
)";
constexpr char kHelper[] = R"(// Shared by my rules.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep {
KHD real half(real x) { return x / 2; }
}
)";

// What is wrong with a folder of templates.
std::string problem_of(const TemporaryFolder& folder) {
  TemplateStore store(folder.path());
  Catalog catalog(store);
  try {
    catalog.rule("plain");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(IncludedFiles, ObeyTheRulesForTemplates) {
  const TemporaryFolder folder;
  const std::string path = folder / "rules/helper.cuh";
  testing::write_file(folder / "rules/plain.cuh", kRule);
  testing::write_file(path, kHelper);
  EXPECT_EQ(problem_of(folder), "");
  for (const auto& [line, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"#define fma f", "changes how this file and later files are compiled"},
           {"#pragma GCC optimize(\"fast-math\")", "changes how this file and later files are"},
           {"#include <cmath>", "a template cannot include system headers"},
           {"// half \\ ", "a line cannot end in a backslash"},
           {"int a = \\", "a backslash in code"},
           {"constexpr auto kText = R\"(a)\";", "a raw string literal"},
           {"[[gnu::optimize(\"fast-math\")]]", "the attribute `gnu::optimize"},
           {"static int seen;", "outlives an element"},
           {"int caf\xc3\xa9();", "a character that is not ASCII"},
           {"inline float f(float x) { return __expf(x); }", "`__expf` is specific"},
           {"struct Open {", "is not closed"}}) {
    testing::write_file(path, str_cat(kHelper, line, "\n"));
    const std::string found = problem_of(folder);
    EXPECT_TRUE(found.starts_with(path + ":7: ")) << found;
    EXPECT_NE(found.find(part), found.npos) << found << "\ninstead of: " << part;
  }
}

// A copy of a built-in file without macros is a start for a helper file.
TEST(IncludedFiles, MayBeCopiesOfFormulasAndPartsOfCodecs) {
  const TemplateStore store;
  const TemporaryFolder folder;
  testing::write_file(folder / "rules/plain.cuh", kRule);
  std::size_t files = 0;
  for (const char* part : {"formulas/", "codecs/support/"})
    for (const std::string& name : store.list(part)) {
      testing::write_file(folder / part + "copy.cuh", *store.find(name));
      testing::write_file(folder / "rules/helper.cuh",
                          str_cat(kHelper, "#include \"../", part, "copy.cuh\"\n"));
      EXPECT_EQ(problem_of(folder), "") << name;
      ++files;
    }
  EXPECT_GT(files, 6u);
}

// Developers of jitstep change copies of the built-in files, which define macros.
TEST(IncludedFiles, WithTheNameOfABuiltInFileAreNotChecked) {
  const TemporaryFolder folder;
  testing::write_file(folder / "rules/plain.cuh", kRule);
  testing::write_file(folder / "rules/helper.cuh", kHelper);
  testing::write_file(folder / "lang/port.cuh",
                      *TemplateStore().find("lang/port.cuh") + "#define MORE\n");
  EXPECT_EQ(problem_of(folder), "");
}

}  // namespace
}  // namespace jitstep::jit
