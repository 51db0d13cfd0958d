// Compares steps with recorded trajectories on a device of the PTX driver, through jit::CudaBackend and the shared
// library that users link. Host transforms need torch, so that rules with them are not here. tests/golden compares
// 16-bit parameters on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace jitstep::tests {

/// The names of the cases that can run here, sorted.
std::vector<std::string> followed_cases();

/// Runs the steps of the case and compares the recorded parameters, within the case's tolerances.
void follow(const std::string& name);

class PtxGolden : public testing::TestWithParam<std::string> {};

}  // namespace jitstep::tests
