// Translation units: the generated source of a kernel, with includes and one instantiation.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// A translation unit for Engine::kernel.
struct JITSTEP_API Unit {
  std::string name;  // of the plan, such as "adamw_int8_float32"
  std::string text;

  /// Names of the kernel's entries.
  std::vector<std::string> entries;

  /// Positions in `entries`. -1: the kernel has no such entry.
  struct Index {
    std::vector<int> partials, finalize;  // one per pass, launched in this order
    std::vector<int> host_transforms;     // one per transform, before its Plan::transform_passes
    int apply = -1;                       // last
    int eval = -1, train = -1;            // switch the mode, instead of a step
  };
  Index index = {};
};

/// The translation unit of one optimizer step. Throws an Error if the configuration does not fit.
JITSTEP_API Unit unit(const Plan& plan, const KernelConfig& config, const Target& target);

/// The translation unit by which a device counts its steps. Its only entry serves all rules.
JITSTEP_API Unit count_unit();

}  // namespace jitstep::jit
