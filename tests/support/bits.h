// Whether a step leaves the same bits on the CPU, under the emulation and on a GPU, however it is cut.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "emulation/step_run.h"

namespace jitstep::support {
using namespace emulation;

/// A spec with one codec for all slots.
jit::KernelSpec spec_of(const std::string& rule, const std::string& codec,
                        const std::string& weights = "native",
                        jit::Dtype parameter = jit::Dtype::float32,
                        jit::Dtype gradient = jit::Dtype::float32);

/// One way of cutting a step on a GPU: its configuration, its launches, how many blocks a grid has at most.
struct GpuWay {
  std::string name;
  KernelConfig config;
  Grouping grouping;
  unsigned blocks;
};

/// The ways a spec is tried in on a GPU: as it is run by default, and others.
std::vector<GpuWay> gpu_ways(const jit::Plan& plan);

/// Runs a case on the CPU and on a GPU in each of gpu_ways; adds a gtest failure for each outcome
/// that differs from the CPU's in any byte. An Error if there is no GPU.
void expect_same_bits_on_gpu(const StepCase& c);

/// Ways of cutting a step under the emulation: block sizes, vector widths, chunks, batches, orders of blocks and lanes.
constexpr std::size_t kEmulatedWays = 4;

/// Runs a case on the CPU, cut in two ways, and under the emulation in some of its ways, which the kernel chooses; adds
/// a gtest failure for each outcome that differs from the first in any byte. Each way is a kernel to compile.
void expect_same_bits(const StepCase& c, std::size_t ways = kEmulatedWays);

/// Adds, once, the rules, codecs and weight formats of tests/templates/extensions to the default catalog.
void load_test_extensions();

/// Whether a spec names one of them.
bool is_test_extension(const jit::KernelSpec& spec);

}  // namespace jitstep::support
