// Compares the PTX driver's counters of a step with two other sources: the bytes of `jitstep inspect --show model` and
// the instructions of the SASS report.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "jit/base/process.h"
#include "jit/base/text.h"
#include "ptx_driver/host.h"
#include "support/bits.h"

namespace jitstep::tests {

struct CountedKernel {
  std::string rule, state, weights = "native", dtype = "float32";
  // Additional bytes per element, for reading and for writing, of vectors that move in halves. Both halves count their
  // common sectors here, whereas a GPU's cache serves the second one.
  double buffers = 0;

  std::string entry() const { return rule == "lamb" ? "jitstep_partials_0" : "jitstep_apply"; }
  std::string row() const {  // in the SASS report
    return jit::str_cat("| `", rule, "`", rule == "lamb" ? " partials " : " ", state, ", p ",
                        weights == "native" ? dtype : weights, " | ");
  }
};

inline std::ostream& operator<<(std::ostream& out, const CountedKernel& kernel) {
  return out << kernel.row();
}

class Counts : public testing::TestWithParam<CountedKernel> {
 protected:
  static constexpr std::int64_t kElements = 1 << 16;

  // Counters of the kernel's launch in the second step of one tensor.
  static ptx::Counts counted(const CountedKernel& kernel) {
    emulation::StepCase c{.spec = support::spec_of(kernel.rule, kernel.state),
                          .options = {},
                          .tensors = {{.sizes = {kElements}}},
                          .steps = 2};
    c.spec.state.weights = kernel.weights;
    c.spec.state.dtype = c.spec.gradient = jit::parse_dtype(kernel.dtype);
    Gpu gpu(jit::default_engine());
    driver::take_launches();
    run_case(c, gpu.device(), jit::default_kernel_config(kernel_of(c), gpu.backend->target()));
    ptx::Counts last;
    for (const auto& launch : driver::take_launches())
      if (launch.entry == kernel.entry()) last = launch.counts;
    return last;
  }

  // The maximum bytes per element that the launch reads and writes.
  static std::pair<double, double> modeled(const CountedKernel& kernel) {
    const auto result = jit::run_program(
        {JITSTEP_TOOL, "inspect", "--rule", kernel.rule, "--state", kernel.state, "--weights",
         kernel.weights, "--param", kernel.dtype, "--target", "sm_90", "--show", "model", "--json"},
        "", jit::own_variables());
    EXPECT_EQ(result.status, 0) << result.output;
    const auto model = nlohmann::json::parse(result.output).at("model");
    for (const auto& launch : model.at("launches"))
      if (launch.at("entry") == kernel.entry())
        return {launch.at("read").get<double>(), launch.at("written").get<double>()};
    ADD_FAILURE() << "no launch of " << kernel.entry();
    return {};
  }

  // A lane's instructions per element. 0 if the report does not list the kernel.
  static double in_sass(const CountedKernel& kernel) {
    std::ifstream report(JITSTEP_SOURCE_DIR "/bench/results/sass_sm_90.md");
    for (std::string line; std::getline(report, line);)
      if (line.starts_with(kernel.row())) return std::stod(line.substr(kernel.row().size()));
    return 0;
  }
};

// Bytes per element. A tile of 256 elements reads whole sectors of its tensor's table, of the options and of scales.
constexpr double kReadForATile = 2.8, kWrittenForATile = 0.5;
// Each block of threads copies the codebooks of 8-bit codes. It has 16 elements per thread here.
constexpr double kBooks = 1.3;

TEST_P(Counts, OfBytesMatchTheModelAndOfInstructionsTheSassReport) {
  const ptx::Counts counts = counted(GetParam());
  const auto for_element = [](double all) { return all / kElements; };
  const double read = for_element(32.0 * counts.sectors_read);
  const double written = for_element(32.0 * counts.sectors_written);
  const double instructions = for_element(1.0 * counts.instructions);
  RecordProperty("instructions", std::to_string(instructions));
  const auto [model_read, model_written] = modeled(GetParam());
  const double buffers = GetParam().buffers;
  EXPECT_GE(read, model_read + buffers);
  EXPECT_LE(read, model_read + buffers + kReadForATile + (GetParam().state == "int8" ? kBooks : 0));
  EXPECT_GE(written, 0.99 * model_written + buffers);
  EXPECT_LE(written, model_written + buffers + kWrittenForATile);
  // Divisions and roots are one instruction in PTX and many in SASS. Many moves and conversions of PTX do not exist in
  // SASS, where a minimum of three numbers is one instruction.
  EXPECT_GT(in_sass(GetParam()), 0.6 * instructions);
  EXPECT_LT(in_sass(GetParam()), 1.75 * instructions);
}

}  // namespace jitstep::tests
