// The unit that runs one step of a rule on nothing, to see what the rule leaves out or takes from where
// nothing is: templates/kernel/contract_probe.cuh with the names that the host knows.
#pragma once

#include <string>
#include <vector>

#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// A unit for the CPU. Its entry `jitstep_probe` takes a ProbeArgs; if found[i] is 1 afterwards, the rule
/// breaks its contract by findings[i], half a sentence: "`update_state` leaves e.m.next unset".
struct Probe {
  std::string name, text;
  std::vector<std::string> findings;
};

/// The probe of a plan's rule.
Probe probe_of(const Plan& plan);

}  // namespace jitstep::jit
