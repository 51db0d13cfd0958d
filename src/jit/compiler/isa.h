// Whether this machine can run code that another one compiled for itself.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// True if `cpuinfo`, the content of /proc/cpuinfo, names every x86 feature in a host compiler's
/// identity. False if in doubt, and for machines other than x86-64.
bool machine_runs(std::string_view identity, std::string_view cpuinfo);

/// machine_runs for this machine.
bool this_machine_runs(std::string_view identity);

}  // namespace jitstep::jit
