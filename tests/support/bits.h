// Checks that a step gives the same bits on the CPU, under emulation and on a GPU, for every division of the work.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "emulation/step_run.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"

namespace jitstep::support {
using namespace emulation;

/// A spec with one codec for all slots.
jit::KernelSpec spec_of(const std::string& rule, const std::string& codec,
                        const std::string& weights = "native",
                        jit::Dtype parameter = jit::Dtype::float32,
                        jit::Dtype gradient = jit::Dtype::float32);

/// The CPU as if its caches had room for so many elements. 0: each pass visits all tensors.
class CpuWithCache : public jit::CpuBackend {
 public:
  CpuWithCache(std::int64_t elements, jit::ParallelFor parallel_for)
      : CpuBackend(jit::default_engine(), std::move(parallel_for)), elements_(elements) {}
  std::int64_t cached_elements() const override { return elements_; }

 private:
  std::int64_t elements_;
};

/// One division of a step on a GPU: its configuration, its batches, and the maximum number of blocks in a grid.
struct GpuWay {
  std::string name;
  KernelConfig config;
  Grouping grouping;
  unsigned blocks;
};

/// The divisions that tests run on a GPU: the default and others.
std::vector<GpuWay> gpu_ways(const jit::Plan& plan);

/// Runs a case on the CPU, and on a GPU with each of gpu_ways. Adds a gtest failure for each outcome that differs from
/// the CPU's in any byte. Throws an Error if there is no GPU.
void expect_same_bits_on_gpu(const StepCase& c);

/// Number of divisions under emulation. They vary block size, vector width, leaves per item, batches, and the order of
/// blocks and lanes.
constexpr std::size_t kEmulatedWays = 4;

/// Runs a case on the CPU in two divisions, and under emulation in `ways` others, selected by a hash of the kernel.
/// Adds a gtest failure for each outcome that differs from the first in any byte. Each division compiles a kernel.
void expect_same_bits(const StepCase& c, std::size_t ways = kEmulatedWays);

/// Adds the rules, codecs and weight formats of tests/templates/extensions to the default catalog, once.
void load_test_extensions();

/// Whether a spec uses one of them.
bool is_test_extension(const jit::KernelSpec& spec);

}  // namespace jitstep::support
