// Training continues bit for bit after a save and a load: every rule in every state format, weight format and dtype,
// with its default options and with all of them switched.
#include <ostream>

#include "optim/state/resumption.h"

namespace jitstep::tests {
namespace {

class ResumeInEveryStorageFormat : public testing::TestWithParam<std::string> {};

TEST_P(ResumeInEveryStorageFormat, IsBitForBit) {
  for (const StorageFormat& format : all_storage_formats())
    expect_resumes(GetParam(), format, GenericOptions());
}

TEST_P(ResumeInEveryStorageFormat, WithItsOptionsSwitchedIsBitForBit) {
  for (const StorageFormat& format : all_storage_formats())
    expect_resumes(GetParam(), format, all_switched(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Shipped, ResumeInEveryStorageFormat,
                         testing::ValuesIn(shipped(jit::Manifest::Kind::rule)),
                         [](const auto& rule) { return rule.param; });

}  // namespace
}  // namespace jitstep::tests
