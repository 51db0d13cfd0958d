// Generates the unit that runs steps of a rule on poisoned values, to find values that the rule does not set or reads
// unset. Adds the rule's names to templates/kernel/check/contract_probe.cuh.
#pragma once

#include <string>
#include <vector>

#include "jit/base/args.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// A unit for the CPU. Its entry `jitstep_probe` takes a ProbeArgs. If it sets found[i] to 1, the rule violates its
/// contract as findings[i] describes: "`prepare` does not set c.rate".
struct Probe {
  std::string name, text;
  std::vector<std::string> findings;
};

/// The probe of a plan's rule.
Probe probe_of(const Plan& plan);

}  // namespace jitstep::jit
