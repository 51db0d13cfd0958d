#include "jit/base/text.h"

#include <gtest/gtest.h>

namespace jitstep::jit {
namespace {

const std::string kDash = "\xe2\x80\x93";  // three bytes

TEST(Text, IsCutBetweenCharacters) {
  const std::string text = "ab" + kDash + "cd";
  EXPECT_EQ(first_bytes(text, 1), "a");
  for (const std::size_t most : {2, 3, 4}) EXPECT_EQ(first_bytes(text, most), "ab") << most;
  EXPECT_EQ(first_bytes(text, 5), "ab" + kDash);
  EXPECT_EQ(first_bytes(text, 7), text);
  EXPECT_EQ(first_bytes(kDash, 0), "");
  for (const std::size_t most : {2, 3, 4}) EXPECT_EQ(last_bytes(text, most), "cd") << most;
  EXPECT_EQ(last_bytes(text, 5), kDash + "cd");
  EXPECT_EQ(last_bytes(text, 100), text);
  EXPECT_EQ(last_bytes(kDash, 0), "");
}

TEST(Text, ThatIsTooLongEndsInDots) {
  EXPECT_EQ(abbreviated("abcdef", 6), "abcdef");
  EXPECT_EQ(abbreviated("abcdefg", 6), "abc...");
  EXPECT_EQ(abbreviated("a" + kDash + "bcdef", 6), "a...");
}

}  // namespace
}  // namespace jitstep::jit
