// Learning-rate schedulers: warm-up, then decay. They work with any optimizer that has torch's interface, as torch's
// StepLR does.
#pragma once

#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"

namespace jitstep {

/// A scheduler that computes the rate of every step from each group's rate at construction. It sets the rate of step 0
/// at once, so that warm-up includes the first step. torch's Python schedulers do so too, but C++ StepLR does not. Make
/// it after the optimizer, then call step() after each optimizer.step(). A group that is added later starts from its
/// own rate.
///
/// torch::save and torch::load store the step number and the initial rates, but no constructor arguments. To resume,
/// make optimizer and scheduler with the same arguments, then load both. This sets the rate of the current step. An
/// archive of another class, or of another number of groups, throws a c10::Error.
class JITSTEP_API ClosedFormLR : public torch::optim::LRScheduler {
 public:
  /// The step whose rate is currently set, counted from 0.
  std::int64_t last_step() const { return static_cast<std::int64_t>(step_count_) - 1; }

  /// For torch::save and torch::load.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 protected:
  /// `name` is the class name in archives. Constructors of derived classes must end with start().
  ClosedFormLR(torch::optim::Optimizer& optimizer, std::string name);

  /// Sets the rates of step 0.
  void start() { step(); }

  /// The rate of a step, counted from 0, of a group with initial rate `base`.
  virtual double rate(double base, std::int64_t step) const = 0;

  /// The initial rate of each group.
  const std::vector<double>& base_lrs() const { return base_lrs_; }

 private:
  std::vector<double> get_lrs() override;
  std::vector<double> lrs_of(const std::vector<double>& base_lrs, unsigned step_count) const;

  std::string name_;
  std::vector<double> base_lrs_;
  std::vector<double> loaded_lrs_;  // of the checkpoint, until get_lrs() returns them
};

/// For torch::save and torch::load.
JITSTEP_API torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                                        const ClosedFormLR& scheduler);
JITSTEP_API torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                                       ClosedFormLR& scheduler);

/// Warm-up and decay. Step k of w warm-up steps has the rate base (k + 1) / (w + 1): linear, without the 0 at its
/// start. Step w has the base rate. Step `steps` and all later ones have `end_lr`.
struct WarmupDecay {
  std::int64_t steps = 0;         // > warmup_steps; warm-up and decay together; required
  std::int64_t warmup_steps = 0;  // >= 0
  double end_lr =
      0;  // in [0, base]; a group that is added later ends at its base rate if that is lower
};

/// Warm-up, then end_lr + (base - end_lr) (1 - x)^power, where x goes from 0 to 1. LAMB uses power 1, a linear decay
/// (arXiv 1904.00962, with warm-up over 1/320 to 1/5 of the steps). LARS uses power 2 (arXiv 1708.03888). Without
/// warm-up this is torch.optim.lr_scheduler.PolynomialLR. A number out of range throws a c10::Error.
class JITSTEP_API PolynomialLR : public ClosedFormLR {
 public:
  /// `power` must be > 0.
  PolynomialLR(torch::optim::Optimizer& optimizer, WarmupDecay form, double power = 1);

 private:
  double rate(double base, std::int64_t step) const override;

  WarmupDecay form_;
  double power_;
};

/// Warm-up, then end_lr + (base - end_lr) (1 + cos(pi x)) / 2, where x goes from 0 to 1 (arXiv 1608.03983). Without
/// warm-up this is torch.optim.lr_scheduler.CosineAnnealingLR up to T_max, and then stays at end_lr. A number out of
/// range throws a c10::Error.
class JITSTEP_API CosineLR : public ClosedFormLR {
 public:
  /// Arguments as for PolynomialLR.
  CosineLR(torch::optim::Optimizer& optimizer, WarmupDecay form);

 private:
  double rate(double base, std::int64_t step) const override;

  WarmupDecay form_;
};

/// The schedule of AdamW_BF16 (github.com/arogozhnikov/adamw_bfloat16): base min(x, x^decay_power) with x = (k + 2) /
/// preheat_steps at step k. The rule adamw_bf16 includes this schedule. Use this class with other rules.
class JITSTEP_API PreheatLR : public ClosedFormLR {
 public:
  /// `preheat_steps` must be > 0 and `decay_power` <= 0, else it throws a c10::Error.
  explicit PreheatLR(torch::optim::Optimizer& optimizer, double preheat_steps = 3000,
                     double decay_power = -0.5);

 private:
  double rate(double base, std::int64_t step) const override;

  double preheat_steps_, decay_power_;
};

/// base times any function of the step, as torch.optim.lr_scheduler.LambdaLR.
class JITSTEP_API LambdaLR : public ClosedFormLR {
 public:
  /// `factor` gets the step, counted from 0. An empty function throws a c10::Error.
  LambdaLR(torch::optim::Optimizer& optimizer, std::function<double(std::int64_t step)> factor);

 private:
  double rate(double base, std::int64_t step) const override;

  std::function<double(std::int64_t)> factor_;
};

}  // namespace jitstep
