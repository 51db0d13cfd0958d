// Loss scaling as torch.amp.GradScaler does it, which LibTorch does not have. Nothing waits for the device but
// get_scale() and save().
#pragma once

#include <torch/arg.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <unordered_map>

#include "jitstep/jit/export.h"
#include "jitstep/optimizer.h"

namespace jitstep {

/// The numbers of torch.amp.GradScaler, with its names and defaults.
struct JITSTEP_API GradScalerOptions {
  TORCH_ARG(double, init_scale) = 65536;            // > 0
  TORCH_ARG(double, growth_factor) = 2;             // > 1; of the scale, after enough good steps
  TORCH_ARG(double, backoff_factor) = 0.5;          // in (0, 1); after a step that was skipped
  TORCH_ARG(std::int64_t, growth_interval) = 2000;  // > 0; good steps in a row until it grows
  TORCH_ARG(bool, enabled) = true;  // false: every call does what it would without scaling
};

/// Scales losses so that small gradients do not vanish in 16 bits, and finds the scale:
///
///   scaler.scale(loss).backward();
///   scaler.step(optimizer);  // gradients are divided where the step reads them; skipped if one is not finite
///   scaler.update();
///
/// Wrong use is a c10::Error. Used by one thread at a time.
class JITSTEP_API GradScaler {
 public:
  /// A c10::Error for numbers out of range.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(GradScaler&&) = default;
  GradScaler& operator=(GradScaler&&) = default;
  ~GradScaler() = default;

  /// The loss, or whatever backward() is called on, times the scale. A c10::Error for an undefined tensor.
  torch::Tensor scale(const torch::Tensor& outputs);

  /// Divides the gradients by the scale in memory, for those who clip or look at them before the step; at most
  /// once between two updates. Gradients in float16 are refused: they would vanish again. One that has no memory
  /// to divide in becomes a copy that has: a negated view, or one whose elements share memory, as expand() makes it.
  void unscale_(Optimizer& optimizer);

  /// optimizer.step() with gradients divided by the scale, unless unscale_() has done it, and by what the
  /// optimizer's own grad_scale says. The step is skipped, and not counted, if a gradient is not finite. Once for
  /// each optimizer between two updates; one that throws has not happened, and may be called again.
  void step(Optimizer& optimizer);

  /// Sets the scale by what the steps since the last update found, or to a value. The former is a c10::Error after
  /// a step that failed: its gradients belong to the current scale.
  void update();
  void update(double new_scale);

  /// The current scale; 1 if scaling is off.
  double get_scale() const;
  bool is_enabled() const { return options_.enabled(); }

  /// As torch::save and torch::load call it, with torch's names. A scaler that is off saves nothing, and one that
  /// is on cannot load that.
  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  enum class Stage { ready, unscaled, stepped };
  // What was done with an optimizer since the last update.
  struct Progress {
    Stage stage = Stage::ready;
    torch::Tensor found_inf = {};  // once somebody has looked
    bool failed = false;           // the last step threw
  };

  void place_on(const torch::Device& device);
  void check_scaled(const char* caller) const;

  GradScalerOptions options_;
  std::int64_t init_growth_ = 0;
  torch::Tensor scale_, growth_;  // float32 and int32, one each; made with the first loss
  std::unordered_map<const void*, Progress> progress_;  // by what moves with an optimizer
};

/// For torch::save and torch::load.
JITSTEP_API torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                                        const GradScaler& scaler);
JITSTEP_API torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                                       GradScaler& scaler);

}  // namespace jitstep
