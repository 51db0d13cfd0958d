// A few steps of a rule's reference that reach every case: one parameter starts late, one misses a step, and the
// learning rate changes on the way.
#pragma once

#include "optim/reference/reference.h"

namespace jitstep::tests::reference {

class Trajectory {
 public:
  static constexpr int kSteps = 8;
  static constexpr int kChange = 5;  // the learning rate changes before this step

  /// `options` has every option of the rule. `matrices`: the rule takes only matrices. `inputs`: the names of its
  /// inputs in addition to the gradient.
  Trajectory(const std::string& rule, nlohmann::json options, bool matrices,
             std::vector<std::string> inputs = {});

  /// Whether a parameter has a gradient in a step. Steps count from 1.
  bool has_gradient(std::size_t i, int step) const;
  /// Whether a parameter gets the rule's inputs in a step.
  bool has_inputs(std::size_t i, int step) const { return (step + static_cast<int>(i)) % 3 != 0; }
  /// An input of a parameter in a step. Most of its values are positive.
  Numbers input(std::size_t i, const std::string& name, int step) const;
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
  std::vector<std::string> inputs_;
  std::vector<Tensor> tensors_;
  Shared shared_;
};

}  // namespace jitstep::tests::reference
