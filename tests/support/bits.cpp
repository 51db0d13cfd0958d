#include "support/bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "emulation/emulated_backend.h"
#include "support/combinations.h"
#include "support/gpu_backend.h"

namespace jitstep::support {
namespace {

using jit::CodecChoice;
using jit::Dtype;

// Runs the smallest possible pieces in reverse order, as different from one thread as possible.
void backwards(std::int64_t count, std::int64_t grain,
               const std::function<void(std::int64_t, std::int64_t)>& body) {
  for (std::int64_t end = count; end > 0; end -= grain)
    body(std::max<std::int64_t>(end - grain, 0), end);
}

struct Way {
  const char* name;
  KernelConfig config;
  Grouping grouping;
  unsigned blocks;
  BlockOrder order;
  LaneOrder lanes;
};

// Block sizes, vector widths, leaves per item and batches that are valid for every spec. In all of them, codec blocks
// of 32 to 256 hold a lane's vector.
const Way kWays[kEmulatedWays] = {
    {"default",
     {256, 32, 4, 16},
     Grouping::kTogether,
     4,
     BlockOrder::kForward,
     LaneOrder::kForward},
    {"one warp", {32, 32, 8, 4}, Grouping::kHalves, 3, BlockOrder::kReverse, LaneOrder::kReverse},
    {"half a warp",
     {64, 16, 4, 8},
     Grouping::kEachAlone,
     7,
     BlockOrder::kShuffled,
     LaneOrder::kRandom},
    {"scalar", {128, 32, 2, 32}, Grouping::kTogether, 2, BlockOrder::kReverse, LaneOrder::kForward},
};

const std::vector<Difference> kNone;

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

jit::KernelSpec spec_of(const std::string& rule, const std::string& codec,
                        const std::string& weights, Dtype parameter, Dtype gradient) {
  jit::KernelSpec spec;
  spec.rule = rule;
  for (std::size_t i = 0; i < jit::default_catalog().rule(rule).slots.size(); ++i)
    spec.state.slots.push_back(CodecChoice{codec});
  spec.state.weights = weights;
  spec.state.dtype = parameter;
  spec.gradient = gradient;
  return spec;
}

void expect_same_bits(const StepCase& c, std::size_t ways) {
  jit::Engine& engine = jit::default_engine();
  const jit::Plan plan = kernel_of(c);
  jit::CpuBackend cpu(engine);
  CpuWithCache threads(1, backwards);  // for no more than one tensor
  const KernelConfig config = jit::default_kernel_config(plan, jit::Target::cpu());
  const StepOutcome expected = run_case(c, cpu, config);
  EXPECT_EQ(differences(expected, run_case(c, threads, config, Grouping::kHalves)), kNone)
      << "CPU, divided differently";
  for (std::size_t i = 0; i < ways; ++i) {
    const Way& way = kWays[(fixed_hash(plan.spec) + i) % kEmulatedWays];
    EmulatedBackend gpu(engine, way.blocks, way.order, way.lanes);
    EXPECT_EQ(differences(expected, run_case(c, gpu, way.config, way.grouping)), kNone) << way.name;
  }
}

std::vector<GpuWay> gpu_ways(const jit::Plan& plan) {
  // All targets with GPU kernels have the same default.
  std::vector<GpuWay> all = {{"as by default",
                              jit::default_kernel_config(plan, jit::Target::emulated()),
                              Grouping::kTogether, 4096}};
  for (const Way& way : kWays) all.push_back({way.name, way.config, way.grouping, way.blocks});
  all.push_back({"widest", {1024, 32, 8, 64}, Grouping::kHalves, 1});
  return all;
}

void expect_same_bits_on_gpu(const StepCase& c) {
  jit::Engine& engine = jit::default_engine();
  jit::CpuBackend cpu(engine);
  const auto expected =
      run_case(c, cpu, jit::default_kernel_config(kernel_of(c), jit::Target::cpu()));
  for (const GpuWay& way : gpu_ways(kernel_of(c))) {
    GpuBackend gpu(engine, way.blocks);
    EXPECT_EQ(differences(expected, run_case(c, gpu.device(), way.config, way.grouping)), kNone)
        << way.name;
  }
}

namespace {
const std::vector<std::string> kRules = {
    "common_estimate",      "factored_moment", "layer_norms",  "chained_entries",
    "averaged_iterate",     "staged_momentum", "late_moments", "numbered_elements",
    "elementary_functions", "scaled_rows"};
const std::vector<std::string> kCodecs = {"tensor_scale8", "axis_maxima8", "table4"};
const std::filesystem::path kExampleCodec = JITSTEP_TEST_DATA "/../examples/docs/nf4.cuh";
bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
}  // namespace

bool is_test_extension(const jit::KernelSpec& spec) {
  return is_in(kRules, spec.rule) || spec.state.weights == "master32" ||
         std::any_of(spec.state.slots.begin(), spec.state.slots.end(), [](const auto& slot) {
           return slot && (is_in(kCodecs, slot->name) || slot->name == kExampleCodec.stem());
         });
}

void load_test_extensions() {
  static const bool once = [] {
    const std::filesystem::path folder = JITSTEP_TEST_DATA "/templates/extensions";
    for (const auto& rule : kRules) jit::default_catalog().load_rule(folder / (rule + ".cuh"));
    for (const auto& codec : kCodecs) jit::default_catalog().load_codec(folder / (codec + ".cuh"));
    jit::default_catalog().load_codec(kExampleCodec);
    jit::default_engine().templates().add("weights/master32.cuh", read(folder / "master32.cuh"));
    return true;
  }();
  (void)once;
}

}  // namespace jitstep::support
