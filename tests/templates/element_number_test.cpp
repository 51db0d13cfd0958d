// Every function that receives an element can read its number: the index in storage order, counted from the start of
// the unsharded tensor.
#include <gtest/gtest.h>

#include <numeric>

#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

// Copies the number into the parameter (`update_param`, the modes), into a slot (`update_state`) and into a sum
// (`terms`).
constexpr const char* kNumbered = R"(// A probe.   modes: train, eval
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::numbered {
struct Slots {
  Signed m;
};
struct Result {
  real sum;
};
struct Reductions {
  Sum<DOMAIN, 1, Result> result;
};
struct Rule {
  KHD static void update_state(auto& e, const auto&) { e.m.next = static_cast<real>(e.index); }
  KHD static Reals<1> terms(Of<Result>, const auto& e, const auto&) {
    return {static_cast<real>(e.index)};
  }
  KHD static Result finalize(Of<Result>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(sum[0])};
  }
  KHD static void update_param(auto& e, const auto& c) {
    e.p = static_cast<real>(e.index) + real(100000) * c.result.sum;
  }
  KHD static void eval(auto& e, const auto&) { e.p = -static_cast<real>(e.index); }
  KHD static void train(auto& e, const auto&) { e.p = static_cast<real>(2 * e.index); }
};
}
)";

// Varies the domain of the sum: the CPU loops over elements differently if a result is not of the whole tensor.
std::map<std::string, std::string> numbered(const std::string& domain) {
  std::string text = kNumbered;
  text.replace(text.find("DOMAIN"), 6, domain);
  return {{"rules/numbered.cuh", text}};
}

constexpr std::int64_t kRows = 37, kColumns = 9;

class ElementNumbers : public testing::TestWithParam<std::tuple<const char*, std::int64_t>> {
 protected:
  double number(std::int64_t i) const { return static_cast<double>(std::get<1>(GetParam()) + i); }
  // The sum of the numbers in element i's entry.
  double sum(std::int64_t i) const {
    const bool all = domain() == "tensor";
    double sum = 0;
    for (std::int64_t k = 0; k < kRows * kColumns; ++k)
      if (all || k % kColumns == i % kColumns) sum += number(k);
    return sum;
  }
  std::string domain() const { return std::get<0>(GetParam()); }
};

TEST_P(ElementNumbers, AreReadableInEveryFunctionOfARule) {
  OwnTemplates own{numbered(domain())};
  jit::CpuBackend cpu(own.engine);
  const jit::OptionValues options("numbered", own.catalog);
  jit::KernelSpec spec = plain_spec(options);
  spec.state.dtype = spec.gradient = jit::Dtype::float64;
  PlainSteps<double> steps(own, cpu, spec, options, {{kRows, kColumns}}, std::get<1>(GetParam()));
  steps.step(1);
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    EXPECT_EQ(steps.codes<double>(0, 0)[i], number(i));
    EXPECT_EQ(steps.p[0][i], number(i) + 100000 * sum(i)) << "element " << i;
  }
  steps.switch_mode(jit::Mode::eval, 1);
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) EXPECT_EQ(steps.p[0][i], -number(i));
  steps.switch_mode(jit::Mode::train, 1);
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) EXPECT_EQ(steps.p[0][i], 2 * number(i));
}

INSTANTIATE_TEST_SUITE_P(DomainsAndOffsets, ElementNumbers,
                         testing::Combine(testing::Values("columns", "tensor"),
                                          testing::Values(0, 512)),
                         [](const auto& made) {
                           return std::get<0>(made.param) + std::string("_") +
                                  std::to_string(std::get<1>(made.param));
                         });

}  // namespace
}  // namespace jitstep::support
