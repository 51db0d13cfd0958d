#include "jit/manifest/expression.h"

#include <gtest/gtest.h>

#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

const Symbols& symbols() {
  static const Symbols all = {
      {"momentum", {Symbol::Type::number, 1, {}}},
      {"dampening", {Symbol::Type::number, 1, {}}},
      {"nesterov", {Symbol::Type::boolean, 1, {}}},
      {"betas", {Symbol::Type::numbers, 2, {}}},
      {"limit", {Symbol::Type::nullable, 1, {}}},
      {"decay", {Symbol::Type::choice, 1, {"before", "after"}}},
      {"dims", {Symbol::Type::size, 1, {}}},
      {"numel", {Symbol::Type::size, 1, {}}},
      {"size", {Symbol::Type::sizes, 1, {}}},
      {"last", {Symbol::Type::later, 1, {}}},
  };
  return all;
}

Expression parse(std::string_view text) { return parse_expression(text, symbols()); }

bool holds(std::string_view text, const NamedValues& changed = {}) {
  NamedValues values = changed;
  values.merge(NamedValues{{"momentum", 0.9},
                           {"dampening", 0.0},
                           {"nesterov", true},
                           {"betas", Value::Numbers{0.9, 0.999}},
                           {"limit", nullptr},
                           {"decay", "after"}});
  return parse(text).holds(values);
}

std::string problem(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Expression, ComparesNumbersBothWays) {
  EXPECT_TRUE(holds("momentum != 0"));
  EXPECT_FALSE(holds("momentum == 0"));
  EXPECT_TRUE(holds("momentum <= 0.9"));
  EXPECT_FALSE(holds("momentum < 0.9"));
  EXPECT_TRUE(holds("momentum >= 9e-1"));
  EXPECT_FALSE(holds("momentum > 0.9"));
  EXPECT_TRUE(holds("-1 < dampening"));
  EXPECT_TRUE(holds("betas[1] > betas[0]"));
}

TEST(Expression, CombinesConditionsWithStandardPrecedence) {
  EXPECT_FALSE(holds("nesterov && (momentum <= 0 || dampening != 0)"));
  EXPECT_TRUE(holds("nesterov && (momentum <= 0 || dampening != 0)", {{"dampening", 0.1}}));
  EXPECT_TRUE(holds("nesterov || nesterov && !nesterov"));
  EXPECT_TRUE(holds("!nesterov == false"));
  EXPECT_TRUE(holds("!(momentum == 0)"));
  EXPECT_TRUE(holds("true && !false"));
}

TEST(Expression, ComparesChoicesByName) {
  EXPECT_TRUE(holds("decay == after"));
  EXPECT_TRUE(holds("decay != before && nesterov"));
}

TEST(Expression, TestsWhetherAnOptionIsNull) {
  EXPECT_TRUE(holds("limit == null"));
  EXPECT_FALSE(holds("limit != null"));
  EXPECT_TRUE(holds("null != limit && limit > 3", {{"limit", 4}}));
  EXPECT_FALSE(holds("limit > 3"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(holds("betas[0] == null", {{"betas", Value::Numbers{nan, 1}}}));
}

TEST(Expression, ReadsSizesOfTheParameter) {
  const NamedValues sizes = {{"dims", 2.0}, {"numel", 6.0}, {"size(0)", 2.0}, {"size(-1)", 3.0}};
  EXPECT_TRUE(holds("size(0) < size(-1) && numel == 6", sizes));
  EXPECT_FALSE(holds("size( -1 ) <= size(0)", sizes));
  EXPECT_TRUE(parse("momentum > 0 || size(1) > 2").reads_sizes());
  EXPECT_TRUE(parse("numel > 2").reads_sizes());
  EXPECT_TRUE(parse("numel > 2").reads("numel"));
  EXPECT_FALSE(parse("dims > 2 && nesterov").reads_sizes());
  EXPECT_TRUE(parse("dims > 2").reads("dims"));
  EXPECT_NE(problem("size(8) > 0").find("size(-8) to size(7)"), std::string::npos);
}

TEST(Expression, ErrorsQuoteTheUnknownPart) {
  EXPECT_EQ(
      problem("momentums != 0"),
      "in the condition \"momentums != 0\": unknown name `momentums` (did you mean "
      "\"momentum\"?). Known names: betas, dampening, decay, dims, limit, momentum, nesterov, "
      "numel, size.");
  EXPECT_NE(problem("decay == later").find("one of the choices, before, after"), std::string::npos);
  EXPECT_NE(problem("betas[2] > 0").find("betas[0] to betas[1]"), std::string::npos);
}

TEST(Expression, RejectsInvalidConditions) {
  for (const char* text : {"",
                           "momentum",
                           "momentum !=",
                           "momentum == nesterov",
                           "!momentum",
                           "(nesterov",
                           "nesterov nesterov",
                           "nesterov &&",
                           "nesterov && momentum",
                           "momentum == null",
                           "decay",
                           "decay < before",
                           "null",
                           "null == null",
                           "betas > 0",
                           "betas[0",
                           "1e999 > 0",
                           "momentum = 0",
                           "momentum + 1 > 0",
                           "!= 3",
                           "decay == 1",
                           "size > 0",
                           "size(",
                           "size(0",
                           "size() > 0",
                           "size(-9) > 0",
                           "size(momentum) > 0",
                           "numel",
                           "numel(0) > 1",
                           "nesterov & nesterov"}) {
    EXPECT_NE(problem(text), "") << text;
  }
}

TEST(Expression, RejectsDeeplyNestedOrLongTexts) {
  EXPECT_NE(problem(std::string(100000, '(')), "");
  EXPECT_NE(problem(std::string(100000, '!')), "");
  std::string chain = "nesterov";
  for (int i = 0; i < 10000; ++i) chain += "&&nesterov";
  EXPECT_NE(problem(chain), "");
}

}  // namespace
}  // namespace jitstep::jit
