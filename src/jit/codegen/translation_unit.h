// Generates the parts of a translation unit that all kinds of units share.
#pragma once

#include <string>

#include "jitstep/jit/kernel_config.h"
#include "jitstep/jit/plan.h"

namespace jitstep::jit {

/// The namespace of a template file's declarations, such as "jitstep::rules::adamw::".
std::string namespace_of(const Manifest& manifest);

/// Whether a slot's codec rounds stochastically. A codec may decide by its option `stochastic`.
bool has_random_slot(const Plan& plan, int slot);

/// The C++ name of an active reduction in spec_types().
std::string reduction_name(const ResolvedReduction& reduction);

/// Pragmas for the host compiler, which must come first in a unit. Empty for a configuration that sets none. Compilers
/// that do not support them skip them. Without a width, kernels of bfloat16 parameters prefer 512 bits on processors
/// whose instructions round so many values: a load of 512 bits waits for shorter stores.
std::string compiler_text(const Plan& plan, const KernelConfig& config);

/// The arithmetic type and the includes of the plan's components, without any file of templates/kernel/.
std::string include_text(const Plan& plan);

/// How a kernel visits elements: by tiles, or by the loops of one thread.
enum class Traversal { tiles, loops };

/// Loops for dense tensors on the CPU, else tiles.
Traversal traversal_of(const Plan& plan, const KernelConfig& config);

/// `using UnitSpec = jitstep::Spec<UnitParts>;` with its parts, and assertions that the compiler sees the same
/// declarations as the manifest reader. Must come after the include of a file of templates/kernel/.
std::string spec_types(const Plan& plan, const KernelConfig& config, Traversal traversal);

}  // namespace jitstep::jit
