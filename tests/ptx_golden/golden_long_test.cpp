// Every recorded trajectory that a device of the PTX driver can run.
#include "ptx_golden/recorded.h"

namespace jitstep::tests {
namespace {

TEST_P(PtxGolden, IsReproducedByNvrtcsPtx) { follow(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, PtxGolden, testing::ValuesIn(followed_cases()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace jitstep::tests
