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
  expect_different("a = 0xe + 1;", "a = 0xe+1;");
  expect_different("a = 0x1P - 1;", "a = 0x1P-1;");
  expect_different("a = 1e+ 5;", "a = 1e+5;");
  expect_same("a = e + 1 - 0xe;", "a=e+1-0xe;");
}

TEST(CanonicalText, AnEmptyCommentSeparatesTokens) { expect_same("int/**/a;", "int a;"); }

TEST(CanonicalText, ABackslashJoinsLinesEvenInsideATokenOrComment) {
  expect_different("va\\\nl", "va l");
  expect_same("va\\\nl", "val");
  expect_same("int a; /\\\n/ one\nint b;", "int a;\nint b;");
  expect_different("int a; // one \\\\\n\nint b;", "int a;");
}

// g++ joins these lines. A compiler that does not must get its own kernel, too.
TEST(CanonicalText, ABackslashBeforeBlanksAtTheEndOfALineCounts) {
  for (const char* blank : {" ", "\t", " \t ", "\r"}) {
    const std::string half = std::string("// half \\") + blank + "\nx = x / 2;\n";
    expect_different((half + "y = x;").c_str(), "// half\nx = x / 2;\ny = x;");
    expect_different((half + "y = x;").c_str(), "y = x;");
    const std::string defined = std::string("#define f(x) \\") + blank + "\nx;\n";
    expect_different(defined.c_str(), "#define f(x)\nx;\n");
  }
}

TEST(CanonicalText, LettersOfOtherAlphabetsAndDollarsBelongToNames) {
  expect_different("return \xc3\xa9;", "return\xc3\xa9;");
  expect_different("int $x;", "int$x;");
  expect_different("int x \\u00e9;", "int x\\u00e9;");
  expect_same("int x;  // caf\xc3\xa9 $", "int x;");
}

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
  expect_different("a = 1.e1'0; b = \"' // x\";", "a = 1.e1'0; b = \"' // y\";");
  expect_same("a = .5'0; // x\nb = 1.5'0;", "a = .5'0;\nb = 1.5'0;");
}

// An apostrophe in lines that a condition leaves out.
TEST(CanonicalText, ALiteralThatIsNotClosedEndsWithItsLine) {
  expect_different("#if 0\ndon't\n#elif A\n(b)\n#endif\n", "#if 0\ndon't\n#elif A (b)\n#endif\n");
  expect_same("#if 0\ndon't\n#endif\nint a; // x\n", "#if 0\ndon't\n#endif\nint a;\n");
}

TEST(CanonicalText, DirectivesEndWithTheirLine) {
  expect_different("#define a\nb", "#define a b");
  expect_different("%:define a\nb", "%:define a b");
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
  for (const char* own : {"__LINE__", "__LI\\\nNE__", "__builtin_LINE()", "__builtin_COLUMN()",
                          "__FILE_NAME__", "std::source_location::current()"}) {
    const std::string code = std::string("auto a = ") + own + ";";
    expect_different((code + " // x").c_str(), (code + " // y").c_str());
  }
}

TEST(CanonicalText, ATextWithARawStringLiteralIsNotChanged) {
  expect_different("f(R\"(a\\\nb)\")", "f(R\"(ab)\")");
  expect_different("f(ERROR\"(\" x(a)\"// 1\")", "f(ERROR\"(\" x(a)\"// 2\")");
}

TEST(CanonicalText, WithoutATokenItIsEmpty) {
  EXPECT_EQ(canonical_text(""), "");
  EXPECT_EQ(canonical_text("// only a comment"), "");
  EXPECT_EQ(canonical_text("\n \n"), "");
}

}  // namespace
}  // namespace jitstep::jit
