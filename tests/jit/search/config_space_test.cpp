#include "jit/search/config_space.h"

#include <algorithm>
#include <set>

#include "jit/codegen/unit.h"
#include "jit/fixtures.h"
#include "jit/step/step_fixtures.h"
#include "jit/tuning/tuning_samples.h"

namespace jitstep::jit {
namespace {

using testing::abacus;
using testing::adamw_plan;

TEST(ConfigSpace, HoldsTheDefaultFirstAndNoDuplicatesOrInvalidConfigs) {
  const Hardware gpu = gpu_hardware(Target::cuda(90), 132, 50 << 20);
  for (const Hardware& hardware : {abacus(), abacus(1), gpu})
    for (const char* codec : {"fp32", "int8", "int4"}) {
      const Plan plan = adamw_plan(codec);
      const ConfigSpace space = config_space(plan, hardware);
      const std::vector<KernelConfig> all = space.all();
      EXPECT_GT(all.size(), 10u);
      EXPECT_EQ(all.front(), default_kernel_config(plan, hardware.target));
      EXPECT_EQ(std::set<KernelConfig>(all.begin(), all.end()).size(), all.size());
      for (const KernelConfig& config : all) {
        EXPECT_TRUE(space.holds(config)) << to_string(config);
        EXPECT_NO_THROW(unit(plan, config, hardware.target)) << to_string(config);
      }
    }
}

TEST(ConfigSpace, OmitsInvalidConfigs) {
  const Plan plan = adamw_plan();
  const auto all = config_space(plan, gpu_hardware(Target::cuda(90), 132, 50 << 20)).all();
  int widest = 0;
  for (const KernelConfig& config : all)
    widest = std::max(widest, config.tile_lanes * config.vector_elems);
  EXPECT_EQ(widest, 256) << "16 values by 32 lanes are in the space";
}

// The default comes from measurements: bench/results/comparison.md.
TEST(DefaultKernelConfig, UsesTheWidestVectorsOfTheCpuIfCodecsDominate) {
  const auto width_of = [](const std::string& state, int block = 0, Dtype dtype = Dtype::float32,
                           const std::string& weights = "native") {
    KernelSpec spec{.rule = "adamw"};
    spec.state.dtype = dtype;
    spec.state.weights = weights;
    CodecChoice codec{.name = state};
    if (block != 0) codec.options.emplace("block", block);
    spec.state.slots = {codec, codec, std::nullopt};
    return default_kernel_config(resolve(spec), Target::cpu()).simd_bits;
  };
  for (const char* state : {"int8", "int4", "fp8", "fp16", "bf16", "bf16_sr"})
    EXPECT_EQ(width_of(state), 512) << state;
  for (const char* state : {"fp32", "int8_softsign"}) EXPECT_EQ(width_of(state), 0) << state;
  EXPECT_EQ(width_of("int4", 64), 512);
  EXPECT_EQ(width_of("int4", 32), 0);
  EXPECT_EQ(width_of("bf16", 0, Dtype::bfloat16), 0);
  EXPECT_EQ(width_of("int8", 0, Dtype::bfloat16), 512);
  EXPECT_EQ(width_of("fp32", 0, Dtype::bfloat16, "stochastic"), 512);
  EXPECT_EQ(width_of("bf16", 0, Dtype::bfloat16, "stochastic"), 0);
  EXPECT_EQ(default_kernel_config(adamw_plan("int8"), Target::cuda(90)).simd_bits, 0);
}

TEST(ConfigSpace, OmitsConfigsThatTheHardwareDoesNotSupport) {
  const Plan plan = adamw_plan();
  for (const KernelConfig& config : config_space(plan, abacus(1)).all()) {
    EXPECT_EQ(config.max_threads, 0);
    EXPECT_EQ(config.min_items, 0);
  }
  Hardware narrow = abacus();
  narrow.architecture = "x86-64 Beads family 6 avx2";
  for (const KernelConfig& config : config_space(plan, narrow).all())
    EXPECT_NE(config.simd_bits, 512);
}

TEST(ConfigSpace, HasItsSingleChangesAmongTheCandidatesThatAllHardwareHasInCommon) {
  Hardware narrow = abacus(1);
  narrow.architecture = "x86-64 Beads family 6 avx2";
  const Hardware gpu = gpu_hardware(Target::cuda(90), 132, 50 << 20);
  for (const char* codec : {"fp32", "int8", "int4"})
    for (const Hardware& hardware : {abacus(), narrow, gpu}) {
      const Plan plan = adamw_plan(codec);
      const KernelConfig default_config = default_kernel_config(plan, hardware.target);
      const auto common = common_candidates(plan, hardware.target);
      EXPECT_EQ(common.size(), kCommonCandidates);
      const auto own = config_space(plan, hardware).single_changes(default_config);
      for (const KernelConfig& config : own)
        EXPECT_EQ(std::count(common.begin(), common.end(), config), 1) << to_string(config);
      EXPECT_EQ(
          std::count(common.begin(), common.begin() + static_cast<int>(own.size()), default_config),
          0)
          << "the default fills up the end";
    }
}

int changes(const KernelConfig& a, const KernelConfig& b, const ConfigSpace& space) {
  int count = 0;
  for (const TunedParameter& parameter : space.parameters)
    count += a.*parameter.field != b.*parameter.field;
  return count;
}

TEST(ConfigSpace, NeighborsDifferByOneStepOfOneParameter) {
  const Plan plan = adamw_plan();
  const ConfigSpace space = config_space(plan, abacus());
  const KernelConfig default_config = default_kernel_config(plan, Target::cpu());
  std::set<int> chunks;
  for (const KernelConfig& near : space.neighbors(default_config)) {
    EXPECT_EQ(changes(default_config, near, space), 1) << to_string(near);
    chunks.insert(near.leaves_per_item);
  }
  EXPECT_EQ(chunks, (std::set<int>{4, 16, 64})) << "256 is two steps away";
  std::set<int> any;
  for (const KernelConfig& other : space.single_changes(default_config))
    any.insert(other.leaves_per_item);
  EXPECT_EQ(any, (std::set<int>{4, 16, 64, 256}));
}

TEST(ConfigSpace, ContainsOnlyConfigsThatAreTuned) {
  const Plan plan = adamw_plan();
  const ConfigSpace space = config_space(plan, abacus());
  KernelConfig other = default_kernel_config(plan, Target::cpu());
  other.vector_elems = 8;
  EXPECT_FALSE(space.holds(other)) << "a number that is not tuned";
  other = default_kernel_config(plan, Target::cpu());
  other.leaves_per_item = 32;
  EXPECT_FALSE(space.holds(other)) << "a value that is not tried";
}

TEST(KernelConfig, ItsNameListsTheFieldsThatAreSet) {
  EXPECT_EQ(to_string(KernelConfig{1, 1, 256, 16}), "vector_elems 256, leaves_per_item 16");
  EXPECT_EQ(
      to_string(KernelConfig{1, 1, 256, 64, 512, 1, 2, 3}),
      "vector_elems 256, leaves_per_item 64, simd_bits 512, unroll 1, min_items 2, max_threads 3");
  EXPECT_EQ(to_string(KernelConfig{256, 32, 4, 16}),
            "threads 256, tile_lanes 32, vector_elems 4, leaves_per_item 16");
}

TEST(KernelConfig, EveryViolatedConstraintIsReportedByName) {
  const Plan plan = adamw_plan();
  const auto problem = [&](const KernelConfig& v, const Target& target) {
    return config_problem(plan, v, target).value_or("none");
  };
  EXPECT_EQ(problem({1, 1, 256, 16}, Target::cpu()), "none");
  EXPECT_EQ(problem({1, 1, 256, 16, 300}, Target::cpu()), "simd_bits must be 0, 128, 256 or 512");
  EXPECT_EQ(problem({1, 1, 256, 16, 0, 2}, Target::cpu()), "unroll must be 0 or 1");
  EXPECT_EQ(problem({1, 1, 256, 16, 0, 0, -1}, Target::cpu()),
            "min_items and max_threads must be at least 0");
  EXPECT_EQ(problem({256, 32, 4, 16, 512}, Target::cuda(90)),
            "simd_bits, unroll, min_items and max_threads apply only to the CPU");
  EXPECT_EQ(problem({1, 0, 256, 16}, Target::cpu()),
            "tile_lanes (at most 32), vector_elems and leaves_per_item must be powers of two");
}

// Tuning relies on this: every configuration gives the bits of the default.
TEST(CpuConfigs, GiveTheSameBits) {
  emulation::StepCase c;
  c.tensors = {{.sizes = {70000}}, {.sizes = {333}}};
  c.steps = 2;
  CpuBackend cpu(default_engine());
  for (const char* rule : {"lamb", "adamw"}) {
    KernelSpec spec = adamw_plan("int8").spec;
    const Plan plan = resolve(OptionValues(rule), CodecChoice{"int8"});
    spec = plan.spec;
    spec.flags.clear();
    spec.gradient_flags.clear();
    c.spec = spec;
    const KernelConfig default_config = default_kernel_config(plan, Target::cpu());
    const auto expected = emulation::run_case(c, cpu, default_config);
    for (const KernelConfig& other :
         config_space(plan, host_hardware()).single_changes(default_config))
      EXPECT_EQ(emulation::differences(expected, emulation::run_case(c, cpu, other)),
                std::vector<emulation::Difference>())
          << rule << ": " << to_string(other);
  }
}

}  // namespace
}  // namespace jitstep::jit
