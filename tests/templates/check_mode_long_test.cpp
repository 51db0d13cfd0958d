// JITSTEP_CHECK=1 with each flag of the shipped rules set to its other value.
#include <gtest/gtest.h>

#include "jit/fixtures.h"
#include "jit/step/check_rule_contract.h"
#include "jitstep/jit/catalog.h"
#include "support/bits.h"

namespace jitstep::jit {
namespace {

class CheckModeOfFlags : public ::testing::TestWithParam<std::string> {};

TEST_P(CheckModeOfFlags, AcceptsEveryRuleWithEachFlagChanged) {
  Settings settings = testing::settings_with_nvrtc("");
  settings.check = true;
  Engine engine{settings};
  for (const Option& flag : default_catalog().rule(GetParam()).flags) {
    if (flag.type != Option::Type::boolean) continue;
    KernelSpec spec = support::spec_of(GetParam(), "fp32");
    spec.flags = {{flag.name, !flag.initial.boolean()}};
    EXPECT_NO_THROW(check_rule_contract(resolve(spec), engine)) << flag.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, CheckModeOfFlags,
                         ::testing::ValuesIn(default_catalog().names(Manifest::Kind::rule)),
                         [](const auto& rule) { return rule.param; });

}  // namespace
}  // namespace jitstep::jit
