// Hooks that torch calls after it has accumulated a parameter's gradient.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace jitstep {

/// Registers hooks on parameters for as long as the object lives.
class GradHooks {
 public:
  /// Called with a parameter's number when its gradient is complete, in the backward thread of its device. Several
  /// threads may call it at the same time. backward() rethrows its exceptions.
  using OnGradient = std::function<void(std::size_t)>;

  /// `parameters`: leaf tensors without duplicates. Existing hooks are called first. If they remove the gradient,
  /// `on_gradient` is not called. Throws a c10::Error, before anything changes, if a parameter already has a hook of
  /// this class, because its gradient can have one consumer only. `owner` names the new hooks in such a message.
  GradHooks(const char* owner, std::vector<torch::Tensor> parameters, OnGradient on_gradient);
  /// The check of the constructor alone.
  static void check_free(const char* owner, const std::vector<torch::Tensor>& parameters);
  /// Removes the hooks. A hook that another one wraps remains, and does nothing. A hook may call this.
  ~GradHooks();
  GradHooks(const GradHooks&) = delete;
  GradHooks& operator=(const GradHooks&) = delete;

 private:
  std::vector<torch::Tensor> parameters_;
  std::shared_ptr<const OnGradient> on_gradient_;
};

}  // namespace jitstep
