// Every shipped rule with its defaults minimizes a bowl in every state format and dtype. Nothing may become infinite
// or NaN, and the weights must approach the minimum. (In bfloat16 a small rate may move nothing.)
// The state takes the bytes of its tensors and of its layout.
#include <ostream>

#include "optim/rule_inputs.h"
#include "optim/state_bytes.h"

namespace jitstep::tests {
namespace {

using Kind = jit::Manifest::Kind;

class EveryRule : public testing::TestWithParam<std::string> {};

double size_of(const Tensors& parameters) {
  double sum = 0;
  for (const auto& p : parameters)
    sum += p.detach().to(torch::kFloat64).square().sum().item<double>();
  return std::sqrt(sum);
}

// A matrix, a vector and a scalar, large enough for scales. Rules for matrices get only the first.
Tensors start(torch::Dtype dtype, bool vectors) {
  Tensors parameters = make_parameters(dtype, {{66, 70}, {4100}, {}});
  if (!vectors) parameters.resize(1);
  return parameters;
}

// Null if the rule rejects these parameters.
std::unique_ptr<Optimizer> made(const std::string& rule, const Tensors& parameters,
                                const std::string& state) {
  try {
    return std::make_unique<Optimizer>(rule, parameters, GenericOptions().state(state));
  } catch (const c10::Error&) {
    return nullptr;
  }
}

bool goes_down(const std::string& rule, torch::Dtype dtype, const std::string& state,
               bool vectors) {
  const Tensors parameters = start(dtype, vectors);
  const auto optimizer = made(rule, parameters, state);
  if (!optimizer) return false;
  const double before = size_of(parameters);
  for (int step = 0; step < 50; ++step) {
    for (const auto& p : parameters) p.mutable_grad() = p.detach().clone();
    set_inputs(*optimizer, parameters, 1);  // the diagonal of the Hessian
    optimizer->step();
  }
  expect_bytes_of_tensors(*optimizer, parameters, state);
  const double after = size_of(parameters);
  EXPECT_TRUE(std::isfinite(after));
  if (dtype == torch::kBFloat16)
    EXPECT_LE(after, before);
  else
    EXPECT_LT(after, before);
  return true;
}

TEST_P(EveryRule, DescendsABowlInEveryStateAndDtype) {
  int runs = 0;
  for (const auto dtype : {torch::kFloat32, torch::kFloat64, torch::kBFloat16})
    for (const std::string& state : shipped(Kind::codec)) {
      SCOPED_TRACE(testing::Message() << torch::toString(dtype) << ", " << state);
      if (goes_down(GetParam(), dtype, state, true) || goes_down(GetParam(), dtype, state, false))
        ++runs;
    }
  EXPECT_GT(runs, 0);
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryRule, testing::ValuesIn(shipped(Kind::rule)),
                         [](const auto& rule) { return rule.param; });

}  // namespace
}  // namespace jitstep::tests
