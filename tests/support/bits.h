// Whether a step leaves the same bits on the CPU and under the emulation, however it is cut.
#pragma once

#include <string>

#include "support/step_case.h"

namespace jitstep::support {

/// A spec with one codec for all slots.
jit::KernelSpec spec_of(const std::string& rule, const std::string& codec,
                        const std::string& weights = "native",
                        jit::Dtype parameter = jit::Dtype::float32,
                        jit::Dtype gradient = jit::Dtype::float32);

/// Runs a case on the CPU, cut in two ways, and under the emulation with several block sizes, vector
/// widths, chunks, launch groupings and orders of blocks and lanes; adds a gtest failure for each
/// outcome that differs from the first in any byte.
void expect_same_bits(const StepCase& c);

/// Adds the rules, codecs and weight formats of tests/templates/extensions to the default catalog.
void load_test_extensions();

/// Whether a spec names one of them.
bool is_test_extension(const jit::KernelSpec& spec);

}  // namespace jitstep::support
