// PTX from NVRTC, executed through the library's CUDA back end, gives the CPU's bits. A fixed hash selects one division
// of the work and one architecture for each case of this suite.
#pragma once

#include <gtest/gtest.h>

#include "ptx_driver/host.h"
#include "support/bit_cases.h"
#include "support/bits.h"
#include "support/combinations.h"

namespace jitstep::tests {

using emulation::Difference;
using emulation::StepCase;
using support::BitCase;

inline void expect_same_bits(const StepCase& c, const support::GpuWay& way, int device) {
  const jit::Plan plan = kernel_of(c);
  SCOPED_TRACE(to_string(plan.spec) + ", " + way.name + ", device " + std::to_string(device));
  jit::CpuBackend cpu(jit::default_engine());
  const auto expected = run_case(c, cpu, jit::default_kernel_config(plan, jit::Target::cpu()));
  Gpu gpu(jit::default_engine(), device);
  EXPECT_EQ(differences(expected, run_case(c, gpu.device(), way.config, way.grouping)),
            std::vector<Difference>());
}

inline void expect_same_bits_somewhere(const StepCase& c) {
  const jit::Plan plan = kernel_of(c);
  const std::uint32_t hash = support::fixed_hash(plan.spec);
  const auto ways = support::gpu_ways(plan);
  expect_same_bits(c, ways[hash % ways.size()],
                   static_cast<int>(hash / ways.size() % std::size(driver::kDevices)));
}

/// A case, of which only every `step`-th kernel runs.
struct PtxCase {
  BitCase bits;
  std::size_t step = 1;
};
inline void PrintTo(const PtxCase& c, std::ostream* out) { *out << c.bits.name; }
inline constexpr auto kPtxName = [](const auto& info) { return info.param.bits.name; };

class PtxBits : public testing::TestWithParam<PtxCase> {
 protected:
  void TearDown() override { driver::recover(); }
};

TEST_P(PtxBits, EqualThoseOfTheCpu) {
  const auto cases = GetParam().bits.make();
  for (std::size_t k = 0; k < cases.size(); k += GetParam().step)
    expect_same_bits_somewhere(cases[k]);
}

}  // namespace jitstep::tests
