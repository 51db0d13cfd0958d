// The maximum number of slots, reductions and numbers works on every target. With one more, loading the file throws.
#include <gtest/gtest.h>

#include "emulation/emulated_backend.h"
#include "jit/base/args.h"
#include "jit/base/text.h"
#include "jit/codegen/unit.h"
#include "jit/fixtures.h"
#include "jitstep/hyper_params.h"
#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::support {
using namespace emulation;
namespace {

using jit::str_cat;

// Lines 0 to count - 1 of a rule.
template <class Line>
std::string lines(int count, const Line& line) {
  std::string out;
  for (int i = 0; i < count; ++i) out += line(i);
  return out;
}

// The parameter becomes the sum of the rule's numbers, slots and reduction results.
std::string rule_of(int slots, int reductions, int numbers) {
  const auto each = [](const char* before, const char* after) {
    return [=](int i) { return str_cat(before, i, after); };
  };
  return str_cat(
      "#pragma once\n#include \"../lang/contract.cuh\"\nnamespace jitstep::rules::crowded {\n",
      "struct Hyper {\n",
      lines(numbers, [](int i) { return str_cat("  double h", i, " = ", i, ";\n"); }),
      "};\nstruct Slots {\n",
      lines(slots, [](int i) { return str_cat("  Signed m", i, ";  // initial: ", i, "\n"); }),
      "};\n", lines(reductions, [](int i) { return str_cat("struct R", i, " { real sum; };\n"); }),
      "struct Reductions {\n",
      lines(reductions, [](int i) { return str_cat("  Sum<tensor, 1, R", i, "> r", i, ";\n"); }),
      "};\nstruct Scalars { real sum; };\nstruct Rule {\n",
      "  KHD static Scalars prepare(const Hyper& h, int64) {\n    return {static_cast<real>(0",
      lines(numbers, each(" + h.h", "")), ")};\n  }\n",
      "  KHD static void update_state(auto& e, const auto&) {\n",
      lines(slots,
            [](int i) {
              return str_cat("    e.m", i, ".next = e.m", i, ".prev + e.g * ", i + 1, ";\n");
            }),
      "  }\n",
      lines(reductions,
            [](int i) {
              return str_cat("  KHD static Reals<1> terms(Of<R", i,
                             ">, const auto& e, const auto&) { return {e.g * ", i + 1,
                             "}; }\n  KHD static R", i, " finalize(Of<R", i,
                             ">, const Totals<1>& sum, int64, const auto&) { return "
                             "{static_cast<real>(sum[0])}; }\n");
            }),
      "  KHD static void update_param(auto& e, const auto& c) {\n    e.p = c.sum",
      lines(slots, each(" + e.m", ".next")),
      lines(reductions, [](int i) { return str_cat(" + c.r", i, ".sum"); }), ";\n  }\n};\n}\n");
}

class Limits : public ::testing::Test {
 protected:
  // Loads the rule into its own catalog.
  const jit::Manifest& load(int slots, int reductions, int numbers) {
    jit::testing::write_file(folder_ / "crowded.cuh", rule_of(slots, reductions, numbers));
    return catalog_.load_rule(folder_ / "crowded.cuh");
  }

  std::string problem(int slots, int reductions, int numbers) {
    return jit::testing::error_of([&] { load(slots, reductions, numbers); });
  }

  // The result of two steps with gradients of 1, from 300 zeros.
  std::vector<float> after_two_steps(jit::Backend& backend) {
    const jit::OptionValues options("crowded", catalog_);
    const jit::Plan plan = jit::resolve(options, {"fp32"});
    std::vector<float> p(300), g(p.size(), 1);
    const jit::StateStorage state(backend, plan, options, {std::int64_t(p.size())});
    jit::Step step(backend, {{plan, {state.tensor(p.data())}}});
    for (int t = 1; t <= 2; ++t) step.run({{.g = g.data()}}, {plan.at_step(options, t)});
    return p;
  }

  jit::testing::TemporaryFolder folder_;
  jit::Engine engine_{jit::testing::settings_with_nvrtc("")};
  jit::Catalog catalog_{engine_.templates()};
};

TEST_F(Limits, EightSlotsSixteenReductionsAndThirtyTwoNumbersWork) {
  load(8, 16, 32);
  // Numbers: 0 + 1 + ... + 31. Slot i: its initial value i, and twice i + 1. Reduction i: 300 (i + 1).
  const float expected = 496 + (28 + 2 * 36) + 300 * 136;
  jit::CpuBackend cpu(engine_);
  EXPECT_EQ(after_two_steps(cpu), std::vector<float>(300, expected));
  EmulatedBackend emulated(engine_, 3, BlockOrder::kForward, LaneOrder::kForward);
  EXPECT_EQ(after_two_steps(emulated), std::vector<float>(300, expected));
  const jit::Plan plan = jit::resolve(jit::OptionValues("crowded", catalog_), {"fp32"});
  const jit::Target gpu = jit::Target::cuda(90);
  const jit::Unit unit = jit::unit(plan, jit::default_kernel_config(plan, gpu), gpu);
  for (const jit::Resources& entry : engine_.build(unit.text, unit.name, gpu)->binary.resources)
    EXPECT_EQ(entry.spill_store_bytes, 0) << entry.entry;
}

TEST_F(Limits, OneMoreOfEachThrowsWhenTheFileIsLoaded) {
  const std::string file = folder_ / "crowded.cuh";
  EXPECT_EQ(problem(9, 1, 1).find(file), 0u);
  EXPECT_NE(problem(9, 1, 1).find("a file can declare at most 8 slots"), std::string::npos);
  EXPECT_NE(problem(1, 17, 1).find("a file can have at most 16 reductions"), std::string::npos);
  EXPECT_NE(problem(1, 1, 33).find("a file can declare at most 32 numbers"), std::string::npos);
  EXPECT_EQ(catalog_.has(jit::Manifest::Kind::rule, "crowded"), false);
}

// Active reductions of codecs and of the gradient count too.
TEST_F(Limits, OnlyActiveReductionsCount) {
  load(8, 16, 1);
  catalog_.load_codec(JITSTEP_TEST_DATA "/templates/extensions/axis_maxima8.cuh");
  jit::OptionValues options("crowded", catalog_);
  options.set("max_grad_norm", 1);
  EXPECT_NO_THROW(jit::resolve(options, {"fp32"}));
  EXPECT_EQ(jit::testing::error_of([&] {
              jit::resolve(options, {"axis_maxima8"});
            }).find("crowded with these codecs has 33 reductions. At most 24 are allowed."),
            0u);
}

}  // namespace
}  // namespace jitstep::support
