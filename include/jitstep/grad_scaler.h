// Loss scaling as in torch.amp.GradScaler, which LibTorch does not have. Only get_scale() and save() wait for the
// device.
#pragma once

#include <torch/arg.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <map>
#include <memory>

#include "jitstep/jit/export.h"
#include "jitstep/optimizer.h"

namespace jitstep {

/// The options of torch.amp.GradScaler, with its names and defaults.
struct JITSTEP_API GradScalerOptions {
  TORCH_ARG(double, init_scale) = 65536;            // > 0
  TORCH_ARG(double, growth_factor) = 2;             // > 1; factor after growth_interval good steps
  TORCH_ARG(double, backoff_factor) = 0.5;          // in (0, 1); factor after a skipped step
  TORCH_ARG(std::int64_t, growth_interval) = 2000;  // > 0; good steps until the scale grows
  TORCH_ARG(bool, enabled) = true;                  // false: all calls behave as without scaling
};

/// Scales losses so that small gradients do not underflow in 16 bits, and adapts the scale:
///
///   scaler.scale(loss).backward();
///   scaler.step(optimizer);  // divides gradients as it reads them; skipped if one is not finite
///   scaler.update();
///
/// Wrong use throws a c10::Error. Only one thread at a time may use a GradScaler.
class JITSTEP_API GradScaler {
 public:
  /// Throws a c10::Error for numbers out of range.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;
  ~GradScaler() = default;

  /// Returns `outputs`, usually the loss, times the scale. Throws a c10::Error for an undefined tensor.
  torch::Tensor scale(const torch::Tensor& outputs);

  /// Divides the gradients in memory by the scale. Call it to clip or inspect gradients before the step, at most once
  /// between two updates. Throws for float16 gradients, which would underflow again, and for an optimizer that
  /// reduces_in_backward() or copies_in_backward(). A gradient without writable elements of its own is replaced by a
  /// copy, for example a negated view or the result of expand().
  void unscale_(Optimizer& optimizer);

  /// Calls optimizer.step() with gradients divided by the scale, unless unscale_() has divided them. The optimizer's
  /// option grad_scale applies in addition. If a gradient is not finite, the step is skipped and not counted. Call it
  /// once per optimizer between two updates. If it throws, no step was taken and you may call it again.
  void step(Optimizer& optimizer);

  /// Updates the scale from the results of the steps since the last update, or sets it. The first form throws a
  /// c10::Error after a step that threw, because its gradients still have the current scale. It
  /// ignores such a step of an optimizer that was destroyed, and throws if there was no other step.
  void update();
  void update(double new_scale);

  /// The current scale. 1 if scaling is disabled.
  double get_scale() const;
  bool is_enabled() const { return options_.enabled(); }

  /// For torch::save and torch::load, with torch's names. A disabled scaler saves nothing, and an enabled one cannot
  /// load that archive.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  enum class Stage { ready, unscaled, stepped };
  // Calls for one optimizer since the last update.
  struct Progress {
    Stage stage = Stage::ready;
    torch::Tensor found_inf = {};  // defined after the gradients were checked
    bool failed = false;           // the last step threw
  };

  Progress& progress_of(const Optimizer& optimizer);
  void move_to(const torch::Device& device);
  void check_scaled(const char* caller) const;

  GradScalerOptions options_;
  std::int64_t init_growth_ = 0;
  torch::Tensor scale_, growth_;  // float32 and int32 scalars; made by the first scale()
  // By the optimizer's token. It expires with the optimizer.
  using Token = std::weak_ptr<const void>;
  std::map<Token, Progress, std::owner_less<Token>> progress_;
};

/// For torch::save and torch::load.
JITSTEP_API torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                                        const GradScaler& scaler);
JITSTEP_API torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                                       GradScaler& scaler);

}  // namespace jitstep
