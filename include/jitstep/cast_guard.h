// Detects writes through a cast to one of torch's classes.
#pragma once

#include <array>
#include <cstdint>

#include "jitstep/jit/export.h"

namespace jitstep {

/// The first member of classes that derive from torch's OptimizerOptions or OptimizerParamState, at the offset of the
/// members of torch's own classes. A ported program may still have a
/// `static_cast<torch::optim::AdamOptions&>(group.options())`, which compiles. Such a cast reads invalid values from
/// here, and jitstep detects its writes before the next step.
class JITSTEP_API CastGuard {
 public:
  /// The values that a cast reads: NaN for numbers, an undefined tensor for tensors.
  enum class Finds { nan, undefined_tensor };
  explicit CastGuard(Finds finds);

  /// True if nothing was written here.
  bool is_intact() const {
    std::uint64_t changed = 0;
    for (const std::uint64_t word : words_) changed |= word ^ untouched_;
    return changed == 0;
  }

 private:
  // As long as torch's longest classes, except those of LBFGS with its line search.
  std::array<std::uint64_t, 6> words_;
  std::uint64_t untouched_;
};

}  // namespace jitstep
