// Symbol visibility. All symbols without this mark are hidden.
#pragma once

/// Exports a symbol from its library. In public headers it is for users. In private headers it is for jitstep's own
/// libraries, tools and tests.
#define JITSTEP_API __attribute__((visibility("default")))

#if __cplusplus < 202002L
#error \
    "jitstep needs C++20: compile with -std=c++20, or in CMake target_compile_features(YOUR_TARGET PRIVATE cxx_std_20)"
#include "jitstep needs C++20"  // does not exist: stops the compiler before errors that would hide this one
#endif
