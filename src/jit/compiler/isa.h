// What this machine's processor is, and whether it can run code that another one compiled for itself.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// The number of a baseline of processors: 1 for "x86-64", 2 to 4 for "x86-64-v2" to "x86-64-v4". 0 for any other name.
int baseline_level(std::string_view cpu);

/// The x86 features that a host compiler's identity names and `cpuinfo`, the content of /proc/cpuinfo, does not, such
/// as "avx512f avx512bw". Empty if the machine runs its code. A phrase without names if in doubt, and for machines
/// other than x86-64.
std::string machine_lacks(std::string_view identity, std::string_view cpuinfo);

/// machine_lacks for this machine.
std::string this_machine_lacks(std::string_view identity);

/// Whether nothing is lacking.
inline bool machine_runs(std::string_view identity, std::string_view cpuinfo) {
  return machine_lacks(identity, cpuinfo).empty();
}
inline bool this_machine_runs(std::string_view identity) {
  return this_machine_lacks(identity).empty();
}

/// What a compiler can ask the processor to learn what -march=native is, the same on all cores of one kind.
/// Costs no process and no file. Empty for processors other than x86-64.
std::string this_processor();

}  // namespace jitstep::jit
