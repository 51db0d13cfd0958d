#include "jit/compiler/diagnosis.h"

#include <gtest/gtest.h>

#include "jit/cache/cache_fixtures.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using namespace testing;

// The error of a rule with this line, which is its second one.
std::string error_of_line(const std::string& line) {
  TemporaryFolder folder;
  Engine engine(settings_with_cache(folder.path()));
  engine.templates().add("rules/mine.cuh", "struct Rule;\n" + line + "\n");
  return error_of([&] {
    engine.build("#include \"rules/mine.cuh\"\n" + adding_unit("1"), "unit", Target::cpu());
  });
}

TEST(Diagnosis, NamesTheLineOfAnAssertionWithoutAText) {
  const std::string error = error_of_line("static_assert(sizeof(int) == 8);");
  EXPECT_TRUE(error.starts_with("rules/mine.cuh:2: ")) << error;
  EXPECT_FALSE(error.starts_with("rules/mine.cuh:2: tatic")) << error;
}

TEST(Diagnosis, HasTheTextOfAnAssertion) {
  const std::string error = error_of_line("static_assert(sizeof(int) == 8, \"int has 8 bytes\");");
  EXPECT_NE(error.find(": int has 8 bytes"), std::string::npos) << error;
}

// As g++, clang 16, clang 14 and NVRTC report it.
TEST(Diagnosis, HasTheTextOfAnAssertionOfEveryCompiler) {
  const std::string source = "#line 1 \"rules/mine.cuh\"\nstruct Rule;\nstatic_assert(a);\n";
  const auto of = [&](const std::string& what) {
    return diagnosis(source, "rules/mine.cuh:2:1: error: " + what + "\n");
  };
  for (const char* what :
       {"static assertion failed: needs 'int x' and \"y\"",
        "static assertion failed due to requirement 'A ? B : C': needs 'int x' and \"y\""})
    EXPECT_EQ(of(what), "rules/mine.cuh:2: needs 'int x' and \"y\"");
  for (const char* what : {"static_assert failed due to requirement 'a' \"int has 8 bytes\"",
                           "static assertion failed with \"int has 8 bytes\""})
    EXPECT_EQ(of(what), "rules/mine.cuh:2: int has 8 bytes");
  for (const char* what :
       {"static assertion failed", "static assertion failed due to requirement 'A ? B : C'"})
    EXPECT_NE(of(what).find("static"), std::string::npos) << of(what);
}

}  // namespace
}  // namespace jitstep::jit
