#include "jit/source/source_map.h"

#include <gtest/gtest.h>

#include "jit/source/preprocess.h"

namespace jitstep::jit {
namespace {

TEST(SourceMap, LocationsInALogOfEitherCompilerGiveNumberedLines) {
  TemplateStore store("", false);
  store.add("rules/a.cuh", "int l1;\nint l2;\nint l3;\nint l4;\nint l5;\nint l6;\n");
  const std::string preprocessed = preprocess("#include \"rules/a.cuh\"\nint u2;\n", "unit", store);
  for (const std::string log : {"rules/a.cuh:5:3: error: no", "rules/a.cuh(5): error: no",
                                "instantiation of \"x\" at line 5 of rules/a.cuh"}) {
    EXPECT_EQ(excerpt(preprocessed, log),
              "---- rules/a.cuh\n    2 | int l2;\n    3 | int l3;\n    4 | int l4;\n"
              ">   5 | int l5;\n    6 | int l6;\n");
    EXPECT_EQ(numbered_sources(preprocessed, log).find("int u2"), std::string::npos);
    EXPECT_NE(numbered_sources(preprocessed, log).find("    1 | int l1;"), std::string::npos);
  }
  EXPECT_EQ(excerpt(preprocessed, "other/rules/a.cuh:5: no\nrules/a.cuh: no\n"), "");
  EXPECT_EQ(excerpt(preprocessed, "rules/a.cuh:500: no\n"), "---- rules/a.cuh\n");
}

TEST(SourceMap, NumberedPutsANumberBeforeEachLine) {
  EXPECT_EQ(numbered("a\n\nb"), "    1 | a\n    2 | \n    3 | b\n");
}

TEST(SourceMap, FilesGetTheirDisplayNames) {
  const ShownNames shown = {{"rules/a.cuh", "/home/me/a.cuh"}, {"codecs/b.cuh", "my rules/b.cuh"}};
  EXPECT_EQ(with_shown_names("rules/a.cuh:3: no\nat line 5 of rules/a.cuh\n(codecs/b.cuh(2))\n"
                             "x/rules/a.cuh: no, and core/rules/a.cuh neither; core/c.cuh",
                             shown),
            "/home/me/a.cuh:3: no\nat line 5 of /home/me/a.cuh\n(my rules/b.cuh(2))\n"
            "x/rules/a.cuh: no, and core/rules/a.cuh neither; core/c.cuh");
}

}  // namespace
}  // namespace jitstep::jit
