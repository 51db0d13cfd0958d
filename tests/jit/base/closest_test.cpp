#include "jit/base/closest.h"

#include <gtest/gtest.h>

#include "jit/codegen/spec_text.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit {
namespace {

const std::vector<std::string> kNames = {"adam", "adamw", "lion", "schedulefree_adamw"};

TEST(Closest, FindsANameWithOneWrongLetter) {
  EXPECT_EQ(closest("adamvw", kNames), "adamw");
  EXPECT_EQ(closest("adm", kNames), "adam");
  EXPECT_EQ(closest("lino", kNames), "lion") << "two neighbors are swapped";
  EXPECT_EQ(closest("schedulfree_adam", kNames), "schedulefree_adamw");
}

TEST(Closest, IgnoresCase) { EXPECT_EQ(closest("AdamW", kNames), "adamw"); }

TEST(Closest, FindsNothingIfNoNameIsNear) {
  EXPECT_EQ(closest("shampoo", kNames), "");
  EXPECT_EQ(closest("", kNames), "");
  EXPECT_EQ(closest("w", {"m", "v"}), "") << "they have no letter in common";
  EXPECT_EQ(closest("adam", {}), "");
  EXPECT_EQ(closest(std::string(1000, 'a'), {std::string(1000, 'b')}), "");
}

TEST(Closest, ReturnsTheFirstOfEquallyNearNames) { EXPECT_EQ(closest("ac", {"ab", "ad"}), "ab"); }

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Every error that lists the valid names also suggests one.
TEST(Closest, IsSuggestedForEveryUnknownName) {
  const auto check = [](const std::string& suggested, const std::function<void()>& call) {
    const std::string message = message_of(call);
    EXPECT_NE(message.find(" (did you mean \"" + suggested + "\"?)"), std::string::npos) << message;
  };
  const Catalog& catalog = default_catalog();
  check("adamw", [&] { catalog.rule("adamww"); });
  check("factored", [&] { catalog.codec("factord"); });
  check("split16", [&] { catalog.weights("split17"); });
  check("betas", [] { OptionValues("adamw").set("beta", 0.9); });
  check("float32", [] { parse_dtype("flaot32"); });
  check("options", [] { parse_spec(R"({"rule": "adamw", "option": {}})"); });
  check("exp_avg", [] {
    check_formats({.slots = {{"exp_avgs", CodecChoice{"int8"}}}}, OptionValues("adamw"));
  });
  check("block", [] {
    check_formats({.state = CodecChoice{"int8", {{"blok", 64.0}}}}, OptionValues("adamw"));
  });
}

TEST(Closest, IsSuggestedForAChoice) {
  const std::string message = message_of([] { OptionValues("lamb16").set("form", "orignal"); });
  EXPECT_TRUE(message.ends_with("not \"orignal\" (did you mean \"original\"?)")) << message;
}

}  // namespace
}  // namespace jitstep::jit
