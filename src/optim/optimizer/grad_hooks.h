// Torch's hooks behind the accumulation of gradients, for as long as somebody wants them.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace jitstep {

/// Has torch say when a backward has brought gradients to parameters.
class GradHooks {
 public:
  /// Called with a parameter's number when its gradient is there, in the thread that works on its device, several of
  /// which may call at the same time. What it throws, backward() throws.
  using OnGradient = std::function<void(std::size_t)>;

  /// `parameters`: leaves, each once. Hooks of others that they have are called first, and one that leaves no gradient
  /// ends the matter. A c10::Error, before anything is changed, if one of them has hooks of this class: its gradient
  /// can go one way only. `owner` names this one in such a message.
  GradHooks(const char* owner, std::vector<torch::Tensor> parameters, OnGradient on_gradient);
  /// Takes the hooks back; one that others have been put before stays, and does nothing. May be called by a hook.
  ~GradHooks();
  GradHooks(const GradHooks&) = delete;
  GradHooks& operator=(const GradHooks&) = delete;

 private:
  std::vector<torch::Tensor> parameters_;
  std::shared_ptr<const OnGradient> on_gradient_;
};

}  // namespace jitstep
