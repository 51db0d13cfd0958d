// A few steps of a rule's reference that reach every case: one parameter starts late, one misses a step, and the
// learning rate changes on the way.
#pragma once

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {

class Trajectory {
 public:
  static constexpr int kSteps = 8;
  static constexpr int kChange = 5;  // the learning rate changes before this step

  /// `options` has every option of the rule. `matrices`: the rule takes only matrices.
  Trajectory(const std::string& rule, nlohmann::json options, bool matrices);

  /// Whether a parameter has a gradient in a step. Steps count from 1.
  bool has_gradient(std::size_t i, int step) const;
  /// The gradients of the next step, from the current parameters.
  std::vector<Numbers> gradients(int step) const;
  void step(int step);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Shared& shared() const { return shared_; }
  double lr_at(int step) const;
  Numbers evaluated(std::size_t i) const;

 private:
  Options at(int step) const;

  std::string rule_;
  nlohmann::json options_;
  std::vector<Tensor> tensors_;
  Shared shared_;
};

}  // namespace jitstep::tests::reference
