// The kernels that dominate training move whole tiles in vectors and leave enough registers for many threads. The test
// reads PTX and the compiler's report, which needs NVRTC but no GPU. tools/sass_report.py reads the machine
// instructions.
#include <gtest/gtest.h>

#include <regex>

#include "jit/codegen/unit.h"
#include "jitstep/jit/engine.h"
#include "support/allowed_spill.h"
#include "support/bits.h"

namespace jitstep::support {
namespace {

struct HotKernel {
  std::string rule, state;
  jit::Dtype dtype;
  int registers;  // maximum per thread
};

jit::Unit unit_of(const HotKernel& kernel, const jit::Target& target) {
  const jit::Plan plan =
      jit::resolve(spec_of(kernel.rule, kernel.state, "native", kernel.dtype, kernel.dtype));
  return jit::unit(plan, jit::default_kernel_config(plan, target), target);
}

jit::Binary built(const HotKernel& kernel, int sm) {
  const jit::Target target = jit::Target::cuda(sm);
  const jit::Unit unit = unit_of(kernel, target);
  return jit::default_engine().build(unit.text, unit.name, target)->binary;
}

// The number of matches in a text.
std::ptrdiff_t count(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), expression), {});
}

class HotKernels : public testing::TestWithParam<std::tuple<HotKernel, int>> {
 protected:
  const HotKernel& kernel() const { return std::get<0>(GetParam()); }
  int sm() const { return std::get<1>(GetParam()); }
};

// A lane has two rows of each array, with four elements in each. Bytes of four-bit codes come in pairs.
TEST_P(HotKernels, MoveWholeTilesInVectors) {
  // For an architecture that NVRTC does not know, it makes PTX of the previous one.
  const jit::Binary binary = built(kernel(), sm() + 1);
  const std::string ptx(reinterpret_cast<const char*>(binary.image.data()), binary.image.size());
  const std::ptrdiff_t bytes = kernel().state == "int4" ? 4 : 0;
  EXPECT_GE(count(ptx, R"(ld\.global\.v4)"), 8 - bytes);
  EXPECT_GE(count(ptx, R"(ld\.global\.v2\.u8)"), bytes);
  EXPECT_GE(count(ptx, R"(st\.global\.v4)"), 6 - bytes);
  EXPECT_GE(count(ptx, R"(st\.global\.v2\.u8)"), bytes);
  EXPECT_EQ(count(ptx, R"(\.local)"), 0);
}

TEST_P(HotKernels, LeaveRegistersForManyThreads) {
  for (const jit::Resources& entry : built(kernel(), sm()).resources) {
    EXPECT_LE(entry.registers, kernel().registers) << entry.entry;
    EXPECT_LE(entry.stack_bytes + entry.spill_store_bytes,
              allowed_spill(kernel().rule, kernel().state))
        << entry.entry;
  }
}

std::vector<HotKernel> hot_kernels() {
  std::vector<HotKernel> all;
  for (const auto dtype : {jit::Dtype::float32, jit::Dtype::bfloat16})
    for (const char* state : {"fp32", "bf16", "int8", "int4"})
      all.push_back({"adamw", state, dtype, 80});
  all.push_back({"lamb", "bf16", jit::Dtype::bfloat16, 128});
  return all;
}

std::string name_of(const testing::TestParamInfo<std::tuple<HotKernel, int>>& test) {
  const HotKernel& kernel = std::get<0>(test.param);
  return kernel.rule + "_" + kernel.state + "_" + to_string(kernel.dtype) + "_sm_" +
         std::to_string(std::get<1>(test.param));
}

INSTANTIATE_TEST_SUITE_P(All, HotKernels,
                         testing::Combine(testing::ValuesIn(hot_kernels()),
                                          testing::Values(80, 90)),
                         name_of);

}  // namespace
}  // namespace jitstep::support
