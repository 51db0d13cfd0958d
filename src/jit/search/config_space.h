// The configurations that a tuner may try for a kernel.
#pragma once

#include <vector>

#include "jit/tuning/hardware.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::jit {

/// One number of a configuration and the values it may have, in ascending order.
struct TunedParameter {
  const char* name;
  int KernelConfig::*field;
  std::vector<int> values;
};

/// The values of each parameter. Only check_config() decides which combinations are valid.
struct JITSTEP_API ConfigSpace {
  Plan plan;
  Target target;
  std::vector<TunedParameter> parameters;

  /// Whether each number is a value of its parameter and the kernel supports the configuration.
  bool holds(const KernelConfig& config) const;
  /// All valid configurations: the default first, the others in the order of the values.
  std::vector<KernelConfig> all() const;
  /// The valid configurations that differ from `config` in one parameter, by the next smaller or larger value.
  std::vector<KernelConfig> neighbors(const KernelConfig& config) const;
  /// The valid configurations that differ from `config` in one parameter, by any value.
  std::vector<KernelConfig> single_changes(const KernelConfig& config) const;
};

/// The configurations that a tuner tries for a kernel on this hardware. The default is always included.
JITSTEP_API ConfigSpace config_space(const Plan& plan, const Hardware& hardware);

}  // namespace jitstep::jit
