// The one line that a compiler's log boils down to. Knows how g++, clang and NVRTC write.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// "rules/mine.cuh:23: what is wrong", at most 240 bytes: the first error of a log, with a word of the
/// contract if it is about that, placed in the rule, codec or weight format it is about, else where the
/// compiler has it. Empty if the log names no place. `flat` is the text that was compiled.
std::string diagnosis(std::string_view preprocessed, std::string_view log);

}  // namespace jitstep::jit
