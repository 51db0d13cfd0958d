// Whether a binary is what it should be, as far as it can be told without loading it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "jitstep/jit/target.h"

namespace jitstep::jit {

/// Why an image cannot be one for `target`; empty if it may be. The ELF machine and GPU architecture are looked at, that all
/// its headers promise lies in the file (the loader maps what a cut file lacks, and the process dies of SIGBUS), and
/// that a shared object defines a function.
std::string image_problem(std::span<const std::byte> image, const Target& target);

}  // namespace jitstep::jit
