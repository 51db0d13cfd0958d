// A model that ranks train. rank_threads.h has the ranks.
#pragma once

#include <gtest/gtest.h>
#include <jitstep/jitstep.h>
#include <jitstep/sharding.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "optim_shard/rank_threads.h"

namespace jitstep::tests {

using Tensors = std::vector<torch::Tensor>;

/// Parameters of fixed values: matrices and vectors of odd sizes, one that is transposed in memory, and an empty one.
inline Tensors model(torch::ScalarType dtype = torch::kFloat32, bool only_matrices = false) {
  auto random = at::detail::createCPUGenerator(7);
  const auto make = [&](std::vector<std::int64_t> sizes) {
    return (torch::randn(sizes, random) * 0.1).to(dtype).set_requires_grad(true);
  };
  if (only_matrices)
    return {make({90, 57}), make({64, 128}), make({0, 5}), make({33, 100}), make({1, 5000})};
  Tensors all = {make({5001}), make({90, 57}), make({}), make({4095}), make({4097})};
  all.push_back(make({100, 90}).detach().t().set_requires_grad(true));
  all.push_back(make({0}));
  all.push_back(make({33}));
  return all;
}

/// The same gradients on all ranks. The second has another layout than its parameter.
inline void set_gradients(const Tensors& parameters, int step) {
  auto random = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 + step));
  for (const torch::Tensor& p : parameters)
    p.mutable_grad() = torch::randn(p.sizes(), random).to(p.scalar_type());
  if (parameters[1].dim() == 2)
    parameters[1].mutable_grad() = parameters[1].grad().t().contiguous().t();
}

/// Parameters, weights in float32, and codes, scales and residuals of all states.
struct Outcome {
  Tensors parameters, weights, slots;
};

inline Outcome outcome_of(Optimizer& whole, const Tensors& parameters) {
  Outcome outcome{{}, whole.fp32_weights(), {}};
  for (const torch::Tensor& p : parameters) {
    outcome.parameters.push_back(p.detach().clone());
    const auto found = whole.state().find(p.unsafeGetTensorImpl());
    if (found == whole.state().end()) continue;
    const auto& state = static_cast<const ParamState&>(*found->second);
    std::vector<torch::Tensor> stored = {state.residual()};
    for (const auto& [slot, codec] : whole.formats_of(p).slots)
      stored.push_back(state.codes(slot)), stored.push_back(state.meta(slot));
    for (const torch::Tensor& tensor : stored)
      if (tensor.defined()) outcome.slots.push_back(tensor.clone());
  }
  return outcome;
}

inline void expect_equal(const Tensors& one, const Tensors& other, const std::string& what) {
  ASSERT_EQ(one.size(), other.size()) << what;
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(torch::equal(one[i], other[i])) << what << " " << i;
}

inline void expect_equal(const Outcome& one, const Outcome& other, const std::string& what) {
  expect_equal(one.parameters, other.parameters, what + ": parameter");
  expect_equal(one.weights, other.weights, what + ": weights of parameter");
  expect_equal(one.slots, other.slots, what + ": state tensor");
}

}  // namespace jitstep::tests
