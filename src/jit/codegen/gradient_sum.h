// The kernels of GradAccumulator: a sum of gradients is the parameter of an internal rule.
#pragma once

#include <cstdint>

#include "jitstep/hyper_params.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/plan.h"
#include "jitstep/jit/value.h"

namespace jitstep::jit {

/// The kernel that adds a gradient of the same dtype to a sum. `stochastic`: rounds 16-bit sums stochastically, and
/// otherwise to nearest. Start a sum with -0, the neutral element: -0 + x is x for every x, also for x = -0.
JITSTEP_API Plan gradient_sum_plan(Dtype sum, bool stochastic);

/// Its hyperparameters, without the step number. Each addition needs another number, which selects the random bits.
JITSTEP_API HyperParams gradient_sum_params(std::uint64_t seed);

}  // namespace jitstep::jit
