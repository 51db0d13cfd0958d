// The configurations that a tuner may try for a kernel.
#pragma once

#include <cstddef>
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

/// The number of common_candidates() of every kernel.
inline constexpr std::size_t kCommonCandidates = 12;

/// The candidates of processes that tune together and may have other hardware: those that differ from the default in
/// one parameter. Processors of one kind have the same ones in the same order. config_space() knows which this hardware
/// has a use for. The default fills up the end.
JITSTEP_API std::vector<KernelConfig> common_candidates(const Plan& plan, const Target& target);

}  // namespace jitstep::jit
