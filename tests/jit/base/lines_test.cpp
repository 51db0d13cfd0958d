#include "jit/base/lines.h"

#include <gtest/gtest.h>

namespace jitstep::jit {
namespace {

TEST(Lines, TheFirstLineHasNoLineBreak) {
  EXPECT_EQ(first_line("one\ntwo\n"), "one");
  EXPECT_EQ(first_line("one"), "one");
  EXPECT_EQ(first_line("\ntwo"), "");
  EXPECT_EQ(first_line(""), "");
}

}  // namespace
}  // namespace jitstep::jit
