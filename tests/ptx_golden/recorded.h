// Recorded trajectories followed on a device of the PTX driver, through jit::CudaBackend and the shared library that
// users link. Those of matrices' stages are torch's, and of 16-bit parameters are followed by tests/golden on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace jitstep::tests {

/// The names of the cases that can be followed here, sorted.
std::vector<std::string> followed_cases();

/// Steps as the case says and compares the parameters where they are recorded, to what the case allows.
void follow(const std::string& name);

class PtxGolden : public testing::TestWithParam<std::string> {};

}  // namespace jitstep::tests
