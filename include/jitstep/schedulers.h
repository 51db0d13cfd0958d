// Learning rates as functions of the step: warm-up, then decay. They drive any optimizer of torch's interface, as
// torch's own StepLR does.
#pragma once

#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep {

/// A scheduler that knows the rate of every step from the rate each parameter group had when the scheduler was
/// made. As torch's Python classes (and unlike C++'s StepLR) it sets the rate of step 0 at once, so that no step goes
/// without warm-up: make it after the optimizer, then call step() after each optimizer.step(). A group that is
/// added later starts from its own rate.
/// torch::save and torch::load keep its place and those first rates, not what its constructor was given. To go on, make
/// optimizer and scheduler as at first, then load both: that sets the rate of its place. A c10::Error if the archive is
/// of another class or number of groups.
class JITSTEP_API ClosedFormLR : public torch::optim::LRScheduler {
 public:
  /// The step whose rate is set now, counted from 0.
  std::int64_t last_step() const { return static_cast<std::int64_t>(step_count_) - 1; }

  /// For torch::save and torch::load.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 protected:
  /// `name`: of the class, in archives. Derived constructors end with start().
  ClosedFormLR(torch::optim::Optimizer& optimizer, std::string name);

  /// Sets the rates of step 0.
  void start() { step(); }

  /// The rate of a step, counted from 0, of a group whose rate was `base`.
  virtual double rate(double base, std::int64_t step) const = 0;

  /// What each group began with.
  const std::vector<double>& base_lrs() const { return base_lrs_; }

 private:
  std::vector<double> get_lrs() override;

  std::string name_;
  std::vector<double> base_lrs_;
};

/// For torch::save and torch::load.
JITSTEP_API torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                                        const ClosedFormLR& scheduler);
JITSTEP_API torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                                       ClosedFormLR& scheduler);

/// Warm-up and decay. Step k of w warm-up steps has the rate base (k + 1) / (w + 1): a straight line of which 0 is
/// left out. Step w has the base rate; `steps` and all later ones have `end_lr`.
struct WarmupDecay {
  std::int64_t steps = 0;         // > warmup_steps, of warm-up and decay together; to be set
  std::int64_t warmup_steps = 0;  // >= 0
  double end_lr = 0;              // in [0, base]
};

/// Warm-up, then end_lr + (base - end_lr) (1 - x)^power, where x goes from 0 to 1. Power 1 is a straight line, as
/// LAMB is trained with (arXiv 1904.00962; warm-up over 1/320 to 1/5 of the steps); 2 is LARS's (arXiv 1708.03888).
/// Without warm-up it is torch.optim.lr_scheduler.PolynomialLR. A c10::Error if a number is out of its range.
class JITSTEP_API PolynomialLR : public ClosedFormLR {
 public:
  /// power: > 0.
  PolynomialLR(torch::optim::Optimizer& optimizer, WarmupDecay form, double power = 1);

 private:
  double rate(double base, std::int64_t step) const override;

  WarmupDecay form_;
  double power_;
};

/// Warm-up, then end_lr + (base - end_lr) (1 + cos(pi x)) / 2, where x goes from 0 to 1 (arXiv 1608.03983). Without
/// warm-up it is torch.optim.lr_scheduler.CosineAnnealingLR, which end_lr ends. Errors as above.
class JITSTEP_API CosineLR : public ClosedFormLR {
 public:
  /// As PolynomialLR.
  CosineLR(torch::optim::Optimizer& optimizer, WarmupDecay form);

 private:
  double rate(double base, std::int64_t step) const override;

  WarmupDecay form_;
};

/// The schedule of AdamW_BF16 (github.com/arogozhnikov/adamw_bfloat16): base min(x, x^decay_power) with
/// x = (k + 2) / preheat_steps at step k. The rule adamw_bf16 has it inside: give this one to others.
class JITSTEP_API PreheatLR : public ClosedFormLR {
 public:
  /// preheat_steps: > 0; decay_power: <= 0. A c10::Error if not.
  explicit PreheatLR(torch::optim::Optimizer& optimizer, double preheat_steps = 3000,
                     double decay_power = -0.5);

 private:
  double rate(double base, std::int64_t step) const override;

  double preheat_steps_, decay_power_;
};

/// base times any function of the step, as torch.optim.lr_scheduler.LambdaLR.
class JITSTEP_API LambdaLR : public ClosedFormLR {
 public:
  /// `factor` is given the step, from 0. A c10::Error if it is empty.
  LambdaLR(torch::optim::Optimizer& optimizer, std::function<double(std::int64_t step)> factor);

 private:
  double rate(double base, std::int64_t step) const override;

  std::function<double(std::int64_t)> factor_;
};

}  // namespace jitstep
