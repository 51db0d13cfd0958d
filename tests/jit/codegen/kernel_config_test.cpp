#include "jitstep/jit/kernel_config.h"

#include "jit/codegen/unit.h"
#include "jit/fixtures.h"
#include "jit/step/step_fixtures.h"
#include "jit/user_templates.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

using testing::error_of;

struct WrongConfig {
  int KernelConfig::*member;
  int value;
  Target target;
  const char* constraint;
};

const WrongConfig kWrong[] = {
    {&KernelConfig::threads, 2, Target::cpu(), "must be 1 on the CPU"},
    {&KernelConfig::tile_lanes, 2, Target::cpu(), "must be 1 on the CPU"},
    {&KernelConfig::simd_bits, 64, Target::cpu(), "simd_bits must be 0, 128, 256 or 512"},
    {&KernelConfig::unroll, 2, Target::cpu(), "unroll must be 0 or 1"},
    {&KernelConfig::min_items, -1, Target::cpu(), "at least 0"},
    {&KernelConfig::vector_elems, 512, Target::cpu(), "at most 256"},
    {&KernelConfig::leaves_per_item, 3, Target::cpu(), "powers of two"},
    {&KernelConfig::threads, 48, Target::cuda(90), "a multiple of 32, at most 1024"},
    {&KernelConfig::threads, 2048, Target::emulated(), "a multiple of 32, at most 1024"},
    {&KernelConfig::tile_lanes, 64, Target::cuda(90), "powers of two"},
    {&KernelConfig::simd_bits, 256, Target::cuda(90), "apply only to the CPU"}};

TEST(KernelConfigCheck, NamesTheConfigurationTheKernelAndTheConstraint) {
  const Plan plan = testing::plan("adamw");
  for (const WrongConfig& wrong : kWrong) {
    KernelConfig config = default_kernel_config(plan, wrong.target);
    config.*wrong.member = wrong.value;
    const std::string message = error_of([&] { check_config(plan, config, wrong.target); });
    for (const std::string& part : {to_string(config), plan.name, std::string(wrong.constraint)})
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    EXPECT_EQ(error_of([&] { unit(plan, config, wrong.target); }), message);
  }
}

TEST(KernelConfigCheck, AcceptsTheDefaultOfEachTarget) {
  for (const Target& target : {Target::cpu(), Target::cuda(90), Target::emulated()}) {
    const Plan plan = testing::plan("adamw");
    EXPECT_NO_THROW(check_config(plan, default_kernel_config(plan, target), target));
  }
}

// Only a bool of this name decides whether a codec reads random bits.
TEST(KernelConfigCheck, AcceptsACodecWhoseOptionStochasticIsNoBool) {
  const testing::TemporaryFolder folder;
  std::string text = testing::kNormedText;
  text.replace(text.find("random = false"), 14, "random = O.stochastic > 1");
  text.insert(text.find("struct Norm "), "struct Options {\n  int stochastic = 1;\n};\n");
  testing::write_file(folder / "normed.cuh", text);
  TemplateStore store;
  Catalog catalog(store);
  catalog.load_codec(folder / "normed.cuh");
  const Plan plan = resolve({.rule = "tiger", .state = {{CodecChoice{"normed"}}}}, catalog);
  EXPECT_NO_THROW(default_kernel_config(plan, Target::cuda(90)));
}

}  // namespace
}  // namespace jitstep::jit
