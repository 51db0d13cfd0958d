// The few lines of text that make a kernel of a plan: includes and one instantiation.
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
  std::string name;  // of its plan, such as "adamw_int8_float32"
  std::string text;
  int passes = 0;  // each is jitstep_partials_<k>, then jitstep_finalize_<k>;
                   // jitstep_host_transform follows if the rule has a host transform
  std::vector<std::string> entries;  // in the order of launching up to jitstep_apply; then, if the
                                     // rule has modes, jitstep_eval and jitstep_train
};

/// The unit of one optimizer step. An Error if the configuration does not fit.
JITSTEP_API Unit unit(const Plan& plan, const KernelConfig& config, const Target& target);

/// The unit, of one entry for all rules, by which a device counts the steps that it takes.
JITSTEP_API Unit count_unit();

}  // namespace jitstep::jit
