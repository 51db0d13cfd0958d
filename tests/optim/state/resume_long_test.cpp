// Training that was saved and loaded goes on bit for bit: every rule in every state, weight format and dtype,
// with its default options and with all of them switched.
#include <ostream>

#include "optim/state/resumption.h"

namespace jitstep::tests {
namespace {

class ResumeInEveryForm : public testing::TestWithParam<std::string> {};

TEST_P(ResumeInEveryForm, IsBitForBit) {
  for (const Form& form : all_forms()) expect_resumes(GetParam(), form, GenericOptions());
}

TEST_P(ResumeInEveryForm, WithItsOptionsSwitchedIsBitForBit) {
  for (const Form& form : all_forms()) expect_resumes(GetParam(), form, all_switched(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Shipped, ResumeInEveryForm,
                         testing::ValuesIn(shipped(jit::Manifest::Kind::rule)),
                         [](const auto& rule) { return rule.param; });

}  // namespace
}  // namespace jitstep::tests
