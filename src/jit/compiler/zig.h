// zig as a C++ compiler: PyPI's package ziglang brings it to machines that have no other.
#pragma once

#include <string>
#include <vector>

#include "jit/base/spawn.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// True for a program named zig, which is several compilers in one.
bool is_zig(const std::string& program);

/// The first words of a compiler's command line: the program, and for zig what makes it a compiler of kernels.
std::vector<std::string> command_of(const std::string& program);

/// The flags as the program spells them.
std::vector<std::string> flags_for(const std::string& program, std::vector<std::string> flags);

/// Adds the variables that name zig's own caches. `folder`: the compiler's private work folder.
void add_zig_folders(Variables& variables, const Settings& settings, const std::string& folder);

}  // namespace jitstep::jit
