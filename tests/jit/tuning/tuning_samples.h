// Records, hardware and kernels that tests of the tuner start from. The hardware is fictional.
#pragma once

#include "jit/tuning/tuning_record.h"
#include "jitstep/jit/option_values.h"

namespace jitstep::jit::testing {

inline Hardware abacus(int units = 4) {
  return {.target = Target::cpu(),
          .name = "Abacus 3000",
          .architecture = "x86-64 Beads family 7 avx512",
          .units = units,
          .cache_bytes = 1 << 20,
          .bandwidth = 2e10};
}

inline Plan adamw_plan(const std::string& codec = "fp32") {
  return resolve(OptionValues("adamw"), CodecChoice{codec});
}

/// A tuning record of an adamw kernel at one size. A larger `leaves_per_item` won.
inline TuningRecord won_record(const WorkSize& size = {1 << 20, 1},
                               const Hardware& hardware = abacus()) {
  const Plan plan = adamw_plan();
  KernelConfig chosen = default_kernel_config(plan, Target::cpu());
  chosen.leaves_per_item = 64;
  chosen.unroll = 1;
  return {.kernel = plan.name,
          .spec = to_string(plan.spec),
          .size = size,
          .hardware = hardware,
          .versions = {"0.1.0", "gcc version 12.2.0", "0123456789abcdef"},
          .strategy = "exhaustive",
          .date = "2026-11-23",
          .complete = true,
          .outcome = Outcome::won,
          .config = chosen,
          .gain = 1.25,
          .spread = 0.015625,
          .trials = {{.config = chosen,
                      .times = {.rounds = 9,
                                .seconds = 0.0025,
                                .default_seconds = 0.00315,
                                .ratio = 0.8,
                                .spread = 0.01}},
                     {.config = default_kernel_config(plan, Target::cpu()),
                      .status = TrialStatus::does_not_compile,
                      .detail = "no room"}}};
}

/// Records with every status, outcome and optional field.
inline std::vector<TuningRecord> records_of_all_kinds() {
  TuningRecord failed = won_record();
  failed.complete = false;
  failed.outcome = Outcome::unresolved;
  failed.config.simd_bits = 512;
  failed.config.min_items = 32;
  failed.config.max_threads = 1;
  failed.hardware.processors = 8;
  for (std::size_t i = 1; i < kTrialStatusNames.size(); ++i)
    failed.trials.push_back(
        {.config = failed.config, .status = static_cast<TrialStatus>(i), .detail = "\"no\" room"});
  TuningRecord gpu =
      won_record({1 << 30, 700}, gpu_hardware(Target::cuda(90), 132, std::int64_t{50} << 20));
  gpu.versions.compiler = "";
  gpu.outcome = Outcome::default_config;
  gpu.config = {.threads = 256, .tile_lanes = 32, .vector_elems = 4, .leaves_per_item = 16};
  gpu.trials = {{.config = gpu.config, .times = {.rounds = 1, .seconds = 1e-5}}};
  return {won_record(), failed, gpu};
}

}  // namespace jitstep::jit::testing
