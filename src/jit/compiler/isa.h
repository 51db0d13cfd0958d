// Identifies this machine's processor, and checks if it can run code for another one.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// The level of a baseline: 1 for "x86-64", 2 to 4 for "x86-64-v2" to "x86-64-v4". 0 for any other name.
int baseline_level(std::string_view cpu);

/// The x86 features in a host compiler's identity that `cpuinfo`, the content of /proc/cpuinfo, lacks, such as "avx512f
/// avx512bw". Empty if the machine can run the code. "unknown features" if in doubt, and on machines other than x86-64.
std::string machine_lacks(std::string_view identity, std::string_view cpuinfo);

/// machine_lacks() for this machine.
std::string this_machine_lacks(std::string_view identity);

/// The processor's properties that determine -march=native, the same on all cores of one kind. Needs no process and no
/// file. Empty on processors other than x86-64.
std::string this_processor();

}  // namespace jitstep::jit
