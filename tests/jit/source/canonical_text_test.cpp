// A kernel's digest depends on its tokens, and not on layout or comments.
#include "jit/source/canonical_text.h"

#include <gtest/gtest.h>

namespace jitstep::jit {
namespace {

void expect_same(const char* a, const char* b) {
  EXPECT_EQ(canonical_text(a), canonical_text(b)) << a;
}
void expect_different(const char* a, const char* b) {
  EXPECT_NE(canonical_text(a), canonical_text(b)) << a << " | " << b;
}

TEST(CanonicalText, CommentsDoNotCount) {
  expect_same("int a = 1;  // one\nint b;", "int a = 1;\nint b;");
  expect_same("int /* a comment */ a;", "int a;");
  expect_same("int a; // goes on \\\n to here\nint b;", "int a;\nint b;");
  expect_same("int a; /* never closed", "int a;");
}

TEST(CanonicalText, LineBreaksAndBlanksDoNotCount) {
  expect_same("f( a,\n   b ) ;", "f(a, b);");
  expect_same("a+b", "a + b");
  expect_same("\n\n  int a;\r\n", "int a;");
  expect_same("long \\\nname;", "long name;");
}

TEST(CanonicalText, BlanksBetweenTokensCount) {
  expect_different("a + +b", "a ++b");
  expect_different("return x;", "returnx;");
  expect_different("a < < b", "a << b");
  expect_different("1 .f", "1.f");
  expect_different("L \"a\"", "L\"a\"");
}

TEST(CanonicalText, AnEmptyCommentSeparatesTokens) { expect_same("int/**/a;", "int a;"); }

TEST(CanonicalText, LiteralsAreNotChanged) {
  expect_different("f(\"a  b\")", "f(\"a b\")");
  expect_different("f(\"// a\")", "f(\"// b\")");
  expect_different("c = ' ';", "c = '';");
  expect_different("f(\"a\\\" // x\")", "f(\"a\\\" // y\")");
  expect_different("f(R\"(a // x\n)\")", "f(R\"(a // y\n)\")");
  expect_different("f(R\"x(a )\" // 1)x\")", "f(R\"x(a )\" // 2)x\")");
  expect_same("f(\"a\"); // x", "f(\"a\"); // y");
}

TEST(CanonicalText, AnApostropheInANumberDoesNotOpenALiteral) {
  expect_same("int a = 1'000; // x\nint b = 2'000;", "int a = 1'000;\nint b = 2'000;");
}

TEST(CanonicalText, DirectivesEndWithTheirLine) {
  expect_different("#define a\nb", "#define a b");
  expect_different("#define f (x)", "#define f(x)");
  expect_same("#define  f(x)  x  // one\nint a;", "#define f(x) x\nint a;");
  expect_same("#define f(x) \\\n  x\nint a;", "#define f(x) x\nint a;");
  expect_same("#if a\nint b;\n#endif\n", "  #if a\n  int b;\n  #endif\n");
  expect_different("#if a\nint b;\n#endif\n", "#if a\n#endif\nint b;\n");
}

TEST(CanonicalText, LineMarkersDoNotCount) {
  expect_same("#line 1 \"a.cuh\"\nint a;\n#line 7 \"b.cuh\"\nint b;", "int a;\nint b;");
}

TEST(CanonicalText, ATextThatUsesLineNumbersIsNotChanged) {
  expect_different("int a = __LINE__; // x", "int a = __LINE__; // y");
}

TEST(CanonicalText, WithoutATokenItIsEmpty) {
  EXPECT_EQ(canonical_text(""), "");
  EXPECT_EQ(canonical_text("// only a comment"), "");
  EXPECT_EQ(canonical_text("\n \n"), "");
}

}  // namespace
}  // namespace jitstep::jit
