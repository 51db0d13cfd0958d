// One kernel of each kind. counts_long_test.cpp has every kernel of the SASS report.
#include "ptx_driver/counts.h"

namespace jitstep::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Some, Counts,
                         testing::Values(CountedKernel{"adamw", "fp32"},
                                         CountedKernel{"adamw", "int8"},
                                         CountedKernel{"adamw", "int4", "stochastic", "bfloat16"},
                                         CountedKernel{"lamb", "bf16", "native", "bfloat16"}));

}  // namespace
}  // namespace jitstep::tests
