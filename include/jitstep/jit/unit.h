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

  /// Each pass is jitstep_partials_<k>, then jitstep_finalize_<k>. jitstep_host_transform follows if the rule has a
  /// host transform.
  int passes = 0;

  /// In order of launch up to jitstep_apply. Rules with modes add jitstep_eval and jitstep_train.
  std::vector<std::string> entries;
};

/// The translation unit of one optimizer step. Throws an Error if the configuration does not fit.
JITSTEP_API Unit unit(const Plan& plan, const KernelConfig& config, const Target& target);

/// The translation unit by which a device counts its steps. Its only entry serves all rules.
JITSTEP_API Unit count_unit();

}  // namespace jitstep::jit
