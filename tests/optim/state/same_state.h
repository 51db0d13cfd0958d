// Compares the state of two optimizers.
#pragma once

#include "optim/training.h"

namespace jitstep::tests {

/// Expects that both have equal state for parameters with the same numbers.
inline void expect_same_state(Optimizer& a, Optimizer& b) {
  const auto state = [](Optimizer& of, std::size_t i) -> ParamState& {
    return static_cast<ParamState&>(*of.state().at(of.parameters()[i].unsafeGetTensorImpl()));
  };
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    EXPECT_TRUE(state(a, i) == state(b, i)) << "parameter " << i;
}

}  // namespace jitstep::tests
