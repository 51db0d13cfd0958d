// Adds the gradient to the parameter, which is a sum of gradients. GradAccumulator steps this rule.
#pragma once

#include "../lang/contract.cuh"

namespace jitstep::rules::jitstep_gradient_sum {

struct Rule {
  static constexpr uint32 weights_stream = 128;
  KHD static void update_param(auto& e, const auto&) { e.p += e.g; }
};

}  // namespace jitstep::rules::jitstep_gradient_sum
