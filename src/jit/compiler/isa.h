// What this machine's processor is, and whether it can run code that another one compiled for itself.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// True if `cpuinfo`, the content of /proc/cpuinfo, names every x86 feature in a host compiler's
/// identity. False if in doubt, and for machines other than x86-64.
bool machine_runs(std::string_view identity, std::string_view cpuinfo);

/// machine_runs for this machine.
bool this_machine_runs(std::string_view identity);

/// What a compiler can ask the processor to learn what -march=native is, the same on all cores of one kind.
/// Costs no process and no file. Empty for processors other than x86-64.
std::string this_processor();

}  // namespace jitstep::jit
