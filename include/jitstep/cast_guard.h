// Notices what a program writes through a cast to one of torch's classes.
#pragma once

#include <array>
#include <cstdint>

#include "jitstep/jit/export.h"

namespace jitstep {

/// The first member of a class that derives from torch's OptimizerOptions or OptimizerParamState, where torch's own
/// classes have theirs. A program that was moved to this library may hold a forgotten
/// `static_cast<torch::optim::AdamOptions&>(group.options())`, which still compiles: what it reads comes from here, and
/// cannot be taken for a number, and what it writes is noticed before the next step.
class JITSTEP_API CastGuard {
 public:
  /// What a cast finds: NaN for numbers, an undefined tensor for tensors.
  enum class Finds { nan, undefined_tensor };
  explicit CastGuard(Finds finds);

  /// Whether nobody has written here.
  bool is_intact() const;

 private:
  // As long as torch's longest classes, but for the line search of LBFGS.
  std::array<std::uint64_t, 6> words_;
  std::uint64_t untouched_;
};

}  // namespace jitstep
