// The pieces of a unit's text, for units of any kind.
#pragma once

#include <string>

#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// The C++ name of a reduction that is taken, in kernel_text.
std::string reduction_name(const ResolvedReduction& reduction);

/// What the host's compiler is told before anything else; empty for a configuration that leaves it to itself, and
/// nothing to compilers that do not know it.
std::string compiler_text(const KernelConfig& config);

/// The arithmetic type and the includes of the plan's own files, without any schedule.
std::string include_text(const Plan& plan);

/// `using UnitSpec = jitstep::Spec<...>;` with what it is made of, the assertions that hold the manifests
/// to what the compiler reads, and `using Kernel = jitstep::Step<UnitSpec, passes>;`. To follow the
/// include of a schedule.
std::string kernel_text(const Plan& plan, const KernelConfig& config);

}  // namespace jitstep::jit
