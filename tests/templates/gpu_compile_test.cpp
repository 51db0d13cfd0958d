// For the architecture that GPU tests run on: every rule, codec, weight format and test extension uses registers only.
// gpu_compile_long_test.cpp compiles all combinations and the covering set for every architecture.
#include <map>

#include "templates/gpu_compile.h"

namespace jitstep::support {
namespace {

const jit::Target kHopper = jit::Target::cuda(90);

// Codecs with AdamW only. The long tests add LAMB, whose sums need registers too.
TEST(GpuCompile, EveryRuleCodecAndWeightFormatUsesRegistersOnly) {
  std::vector<jit::KernelSpec> specs = ci_combinations();
  std::erase_if(specs, [](const jit::KernelSpec& spec) {
    return spec.rule == "lamb" && spec.state.slots.at(0) != jit::CodecChoice{"fp32"};
  });
  EXPECT_GE(specs.size(), 70u);
  expect_registers_only(specs, kHopper);
}

TEST(GpuCompile, TheTestExtensionsUseRegistersOnly) {
  expect_registers_only_of_extensions(kHopper);
}

// Tiles larger than a leaf have more lanes.
TEST(GpuCompile, TheLargestBlocksOfEveryCodecUseRegistersOnly) {
  std::map<std::string, jit::KernelSpec> largest;  // by codec, in ascending order of blocks
  for (const jit::KernelSpec& spec : every_block_from(512))
    largest.insert_or_assign(spec.state.slots.at(0)->name, spec);
  std::vector<jit::KernelSpec> specs;
  for (const auto& [codec, spec] : largest) specs.push_back(spec);
  EXPECT_GE(specs.size(), 7u);
  expect_registers_only(specs, kHopper);
}

}  // namespace
}  // namespace jitstep::support
