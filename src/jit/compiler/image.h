// Validates a binary without loading it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// Why an image cannot be one for `target`. Empty if it can. Checks the ELF machine and GPU architecture, that a shared
/// object defines a function, and that the file contains everything its headers promise. The loader maps a truncated
/// file, and the process would then die of SIGBUS.
std::string image_problem(std::span<const std::byte> image, const Target& target);

}  // namespace jitstep::jit
