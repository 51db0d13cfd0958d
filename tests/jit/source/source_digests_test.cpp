#include "jit/source/source_digests.h"

#include <gtest/gtest.h>

#include "jit/source/preprocess.h"

namespace jitstep::jit {
namespace {

TEST(SourceDigests, CoverTheUnitAndItsIncludes) {
  TemplateStore store({}, false);
  store.add("core/a.cuh", "#include \"b.cuh\"\nint a;\n");
  store.add("core/b.cuh", "int b;\n");
  store.add("core/c.cuh", "int c;\n");
  const std::string unit = "#include \"core/a.cuh\"\nint x;\n";
  Texts included;
  preprocess(unit, "unit", store, included);
  const Sources sources = sources_of(unit, included);
  const Sources expected = {{kUnitSource, code_digest(unit)},
                            {"core/a.cuh", code_digest("#include \"b.cuh\"\nint a;\n")},
                            {"core/b.cuh", code_digest("int b;\n")}};
  EXPECT_EQ(sources, expected);
}

TEST(SourceDigests, OfCurrentTemplatesKeepEntriesThatTheStoreDoesNotKnow) {
  TemplateStore store({}, false);
  store.add("core/a.cuh", "new");
  const Sources then = {{kUnitSource, "u"}, {"core/a.cuh", "old"}, {"rules/mine.cuh", "mine"}};
  const Sources now = {
      {kUnitSource, "u"}, {"core/a.cuh", code_digest("new")}, {"rules/mine.cuh", "mine"}};
  EXPECT_EQ(current_sources(then, store), now);
  EXPECT_EQ(unknown_sources(then, store), std::vector<std::string>{"rules/mine.cuh"});
}

}  // namespace
}  // namespace jitstep::jit
