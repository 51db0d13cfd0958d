// Shortens compiler logs for messages. Knows the formats of g++, clang and NVRTC.
#pragma once

#include <string>
#include <string_view>

namespace jitstep::jit {

/// "rules/mine.cuh:23: what is wrong", at most 240 bytes: the first error of a log, with an explanation if it concerns
/// the contract. The location is in the rule, codec or weight format that causes the error, else the compiler's own.
/// Empty if the log has no location. `preprocessed` is the compiled source.
std::string diagnosis(std::string_view preprocessed, std::string_view log);

/// A log for a message: the whole log if it is short, else its first errors and where to find the rest. Errors in
/// templates have logs of many kilobytes.
std::string shortened(std::string_view log);

}  // namespace jitstep::jit
