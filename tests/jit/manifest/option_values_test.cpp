#include "jitstep/jit/option_values.h"

#include <gtest/gtest.h>

#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// The error of validate().
OptionError error_of(const OptionValues& values) {
  try {
    values.validate();
  } catch (const OptionError& error) {
    return error;
  }
  return {"none", "none", 0};
}

TEST(OptionValues, OfOneRuleShareTheirLayout) {
  EXPECT_EQ(&OptionValues("adamw").layout(), &OptionValues("adamw").layout());
  EXPECT_NE(&OptionValues("adamw").layout(), &OptionValues("lion").layout());
}

TEST(OptionValues, AnErrorNamesTheOptionAndThePositionOfTheNumber) {
  OptionValues values("adamw");
  values.set("betas", Value::Numbers{0.9, 1.5});
  const OptionError error = error_of(values);
  EXPECT_EQ(error.option(), "betas");
  EXPECT_EQ(error.index(), 1u);
  EXPECT_STREQ(error.what(), "adamw: betas[1] is 1.5 and must be in [0, 1)");
}

TEST(OptionValues, AnErrorOfASingleNumberHasThePosition0) {
  OptionValues values("adamw");
  values.set("lr", -1);
  const OptionError error = error_of(values);
  EXPECT_EQ(error.option(), "lr");
  EXPECT_EQ(error.index(), 0u);
}

}  // namespace
}  // namespace jitstep::jit
