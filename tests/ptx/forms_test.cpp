// Every operation of the interpreter gives the bits that g++ computes.
#include <gtest/gtest.h>

#include <set>

#include "ptx/forms.h"
#include "support/ptx/forms.h"

namespace jitstep::tests {
namespace {

std::vector<FormCase> all_cases() {
  std::vector<FormCase> all;
  for (const auto& some : {integer_cases(), real_cases(), comparison_cases(), conversion_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

struct Kind {
  std::string name;
  std::vector<FormCase> (*cases)();
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class PtxForms : public testing::TestWithParam<Kind> {};

TEST_P(PtxForms, GiveTheBitsOfTheHost) {
  for (const FormCase& form : GetParam().cases()) check(form);
}

INSTANTIATE_TEST_SUITE_P(Of, PtxForms,
                         testing::Values(Kind{"Integers", integer_cases}, Kind{"Reals", real_cases},
                                         Kind{"Comparisons", comparison_cases},
                                         Kind{"Conversions", conversion_cases}),
                         [](const auto& kind) { return kind.param.name; });

// Other tests in this folder cover operations that move values, addresses and lanes. memory_test.cpp covers all kinds
// of memory access.
TEST(PtxForms, AllHaveATest) {
  std::set<std::string> tried = {"bra",
                                 "bra.uni",
                                 "call",
                                 "call.uni",
                                 "ret",
                                 "bar.sync",
                                 "bar.warp.sync",
                                 "shfl.sync.up.b32",
                                 "shfl.sync.down.b32",
                                 "shfl.sync.bfly.b32",
                                 "shfl.sync.idx.b32",
                                 "redux.sync.max.u32",
                                 "redux.sync.max.s32",
                                 "redux.sync.min.u32",
                                 "redux.sync.min.s32"};
  for (const FormCase& form : all_cases()) EXPECT_TRUE(tried.insert(form.name).second) << form.name;
  for (const auto& [name, form] : ptx::forms()) {
    const bool access =
        name.starts_with("ld") || name.starts_with("st") || name.starts_with("cvta");
    EXPECT_NE(access, tried.contains(name)) << name;
  }
}

TEST(PtxForms, ThatMayBeContractedOrFlushedAreNotSupported) {
  for (const char* name : {"add.f32", "mul.f32", "add.rn.ftz.f32", "div.full.f32", "div.approx.f32",
                           "sqrt.approx.f32", "ex2.approx.f32", "mad.f32", "cvt.rn.f32.s8x4"})
    EXPECT_FALSE(ptx::forms().contains(name)) << name;
}

}  // namespace
}  // namespace jitstep::tests
