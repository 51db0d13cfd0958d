// Every kernel of the SASS report.
#include "ptx_driver/counts.h"

namespace jitstep::tests {
namespace {

std::vector<CountedKernel> all_kernels() {
  std::vector<CountedKernel> all;
  for (const char* rule : {"adamw", "lamb"})
    for (const char* state : {"fp32", "bf16", "int8", "int4"}) {
      all.push_back({rule, state});
      all.push_back({rule, state, "native", "bfloat16"});
      if (all.back().rule == "adamw")
        all.push_back(
            {rule, state, "stochastic", "bfloat16", std::string(state) == "fp32" ? 8.0 : 0.0});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Counts, testing::ValuesIn(all_kernels()));

}  // namespace
}  // namespace jitstep::tests
