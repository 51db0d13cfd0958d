// Whether kernels compile for an architecture, and use registers only in their default configuration. Needs NVRTC but
// no GPU.
#pragma once

#include <gtest/gtest.h>

#include "jit/codegen/unit.h"
#include "jitstep/jit/engine.h"
#include "support/allowed_spill.h"
#include "support/bits.h"
#include "support/combinations.h"

namespace jitstep::support {

inline void expect_registers_only(const std::vector<jit::KernelSpec>& specs,
                                  const jit::Target& target) {
  for (const auto& spec : specs) {
    SCOPED_TRACE(to_string(spec));
    const jit::Plan plan = jit::resolve(spec);
    const jit::Unit unit = jit::unit(plan, jit::default_kernel_config(plan, target), target);
    const auto built = jit::default_engine().build(unit.text, unit.name, target);
    EXPECT_EQ(built->binary.resources.size(), unit.entries.size());
    const std::string codec =
        spec.state.slots.empty() ? "" : spec.state.slots[0].value_or(jit::CodecChoice{}).name;
    const int spilled = allowed_spill(spec.rule, codec);
    for (const auto& entry : built->binary.resources) {
      EXPECT_LE(entry.spill_store_bytes + entry.spill_load_bytes, spilled) << entry.entry;
      EXPECT_LE(entry.stack_bytes, allowed_stack(spilled))
          << entry.entry << ": something is in local memory";
      EXPECT_GT(entry.registers, 0) << entry.entry;
    }
  }
}

/// Features that no shipped rule uses yet: every domain, chained reductions, auxiliary state, a codec with sums over the
/// tensor.
inline void expect_registers_only_of_extensions(const jit::Target& target) {
  load_test_extensions();
  std::vector<jit::KernelSpec> specs;
  for (const auto& spec : ci_combinations())
    if (is_test_extension(spec)) specs.push_back(spec);
  EXPECT_GE(specs.size(), 8u);
  expect_registers_only(specs, target);
}

/// AdamW in every codec with blocks, for each allowed block size of at least `least`.
inline std::vector<jit::KernelSpec> every_block_from(int least) {
  std::vector<jit::KernelSpec> specs;
  for (const std::string& codec : jit::default_catalog().names(jit::Manifest::Kind::codec)) {
    const jit::Option* const option = jit::default_catalog().codec(codec).find("block");
    if (option == nullptr) continue;
    for (int block = least; block <= 4096; block *= 2) {
      jit::KernelSpec spec = spec_of("adamw", codec);
      for (auto& slot : spec.state.slots) slot->options["block"] = block;
      try {
        specs.push_back(jit::resolve(spec).spec);
      } catch (const jit::Error&) {
        break;  // larger than the codec allows
      }
    }
  }
  return specs;
}

}  // namespace jitstep::support
