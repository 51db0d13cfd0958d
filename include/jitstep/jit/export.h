// What is visible outside the libraries: everything else is hidden.
#pragma once

/// Marks what can be linked to from outside its library: by users where the header is public, by our
/// own libraries, tools and tests where it is private.
#define JITSTEP_API __attribute__((visibility("default")))

#if __cplusplus < 202002L
#error \
    "jitstep needs C++20: compile with -std=c++20, or in CMake target_compile_features(YOUR_TARGET PRIVATE cxx_std_20)"
#include "jitstep needs C++20"  // no such file: the compiler stops here, before errors that would hide this one
#endif
