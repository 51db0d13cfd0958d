// The configurations that a tuner may try for a kernel.
#pragma once

#include <vector>

#include "jit/codegen/hardware.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// One number of a configuration and the values it may have, in ascending order.
struct TunedParameter {
  const char* name;
  int KernelConfig::*field;
  std::vector<int> values;
};

/// Values by parameter. Which of them go together check_config() says, and nobody else.
struct JITSTEP_API ConfigSpace {
  Plan plan;
  Target target;
  std::vector<TunedParameter> parameters;

  /// Whether every number is among its parameter's values and the kernel can be run so.
  bool holds(const KernelConfig& config) const;
  /// All of them, the default first and the rest in the order of the values.
  std::vector<KernelConfig> all() const;
  /// Those that differ from a configuration in one parameter, by one place among its values.
  std::vector<KernelConfig> neighbours(const KernelConfig& config) const;
  /// Those that differ from a configuration in one parameter, by any value.
  std::vector<KernelConfig> single_changes(const KernelConfig& config) const;
};

/// What is worth trying for a kernel on a machine. The default is always part of it.
JITSTEP_API ConfigSpace config_space(const Plan& plan, const Hardware& hardware);

}  // namespace jitstep::jit
