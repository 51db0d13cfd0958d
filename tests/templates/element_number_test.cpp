// Every function that sees an element sees its number: in storage order, counted from the shard's first.
#include <gtest/gtest.h>

#include <numeric>

#include "support/plain_steps.h"

namespace jitstep::support {
namespace {

// Shows the number in the parameter (`apply`, the modes), in a slot (`moments`) and in sums (`terms`).
constexpr const char* kNumbered = R"(// A probe.   modes: train, eval
#pragma once
#include "../core/contract.cuh"
namespace jitstep::rules::numbered {
struct Slots {
  Signed m;
};
struct Column {
  real sum;
};
struct Reductions {
  Sum<columns, 1, Column> column;
};
struct Rule {
  KHD static void moments(auto& e, const auto&) { e.m.next = static_cast<real>(e.index); }
  KHD static Reals<1> terms(Of<Column>, const auto& e, const auto&) {
    return {static_cast<real>(e.index)};
  }
  KHD static Column finish(Of<Column>, const Totals<1>& sum, int64, const auto&) {
    return {static_cast<real>(sum[0])};
  }
  KHD static void apply(auto& e, const auto& c) {
    e.p = static_cast<real>(e.index) + real(100000) * c.column.sum;
  }
  KHD static void eval(auto& e, const auto&) { e.p = -static_cast<real>(e.index); }
  KHD static void train(auto& e, const auto&) { e.p = static_cast<real>(2 * e.index); }
};
}
)";

class ElementNumbers : public testing::TestWithParam<std::int64_t> {};

TEST_P(ElementNumbers, AreSeenByEveryFunctionOfARule) {
  const std::int64_t offset = GetParam(), rows = 37, columns = 9;
  OwnTemplates own{std::map<std::string, std::string>{{"rules/numbered.cuh", kNumbered}}};
  jit::CpuMachine cpu(own.engine);
  const jit::OptionValues options("numbered", own.catalog);
  jit::KernelSpec spec = plain_spec(options);
  spec.state.dtype = spec.gradient = jit::Dtype::float64;
  PlainSteps<double> steps(own, cpu, spec, options, {{rows, columns}}, offset);
  steps.step(1);
  const auto number = [&](std::int64_t i) { return static_cast<double>(offset + i); };
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    double column = 0;
    for (std::int64_t row = 0; row < rows; ++row) column += number(row * columns + i % columns);
    EXPECT_EQ(steps.codes<double>(0, 0)[i], number(i));
    EXPECT_EQ(steps.p[0][i], number(i) + 100000 * column) << "element " << i;
  }
  steps.turn(jit::Mode::eval, 1);
  for (std::int64_t i = 0; i < rows * columns; ++i) EXPECT_EQ(steps.p[0][i], -number(i));
  steps.turn(jit::Mode::train, 1);
  for (std::int64_t i = 0; i < rows * columns; ++i) EXPECT_EQ(steps.p[0][i], 2 * number(i));
}

INSTANTIATE_TEST_SUITE_P(Offsets, ElementNumbers, testing::Values(0, 512),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace jitstep::support
