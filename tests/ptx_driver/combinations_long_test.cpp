// Every combination of the tests, and the test extensions.
#include "ptx_driver/combinations.h"

namespace jitstep::tests {
namespace {

std::vector<PtxCase> all_cases() {
  std::vector<PtxCase> all;
  for (const auto& some : {support::bit_cases(), support::extension_bit_cases(),
                           support::by_rule(support::covering_cases)})
    for (const BitCase& bits : some) all.push_back({bits});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, PtxBits, testing::ValuesIn(all_cases()), kPtxName);

}  // namespace
}  // namespace jitstep::tests
