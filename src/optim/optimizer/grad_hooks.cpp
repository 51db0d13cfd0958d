#include "optim/optimizer/grad_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "optim/tensor/errors.h"

namespace jitstep {
namespace {

namespace autograd = torch::autograd;
using Others = std::unique_ptr<autograd::PostAccumulateGradHook>;

class Hook : public autograd::PostAccumulateGradHook {
 public:
  Hook(const char* owner, std::weak_ptr<const GradHooks::OnGradient> on_gradient,
       std::size_t number, Others others)
      : owner_(owner),
        on_gradient_(std::move(on_gradient)),
        number_(number),
        others_(std::move(others)) {}

  // The call of on_gradient is last, because it may destroy this hook.
  void operator()(const torch::Tensor& p) override {
    if (others_) (*others_)(p);
    if (!p.grad().defined()) return;
    if (const auto on_gradient = on_gradient_.lock()) (*on_gradient)(number_);
  }

  const char* owner() const { return owner_; }
  bool calls(const std::shared_ptr<const GradHooks::OnGradient>& on_gradient) const {
    return on_gradient_.lock() == on_gradient;
  }
  Others take_others() { return std::move(others_); }

 private:
  const char* owner_;
  std::weak_ptr<const GradHooks::OnGradient> on_gradient_;
  std::size_t number_;
  Others others_;
};

Hook* hook_of(const torch::Tensor& p) {
  if (autograd::impl::get_autograd_meta(p) == nullptr) return nullptr;
  return dynamic_cast<Hook*>(autograd::impl::post_acc_grad_hooks(p).get());
}

Others take_hooks(const torch::Tensor& p) {
  if (autograd::impl::get_autograd_meta(p) == nullptr) return nullptr;
  return std::move(autograd::impl::post_acc_grad_hooks(p));
}

}  // namespace

void GradHooks::check_free(const char* owner, const std::vector<torch::Tensor>& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (const Hook* const hook = hook_of(parameters[i]))
      TORCH_CHECK(false, "jitstep: ", owner, " cannot use parameter ", i, " (",
                  describe(parameters[i]), "): its gradients already go to ", hook->owner(),
                  ". Destroy or switch off that one first.");
}

GradHooks::GradHooks(const char* owner, std::vector<torch::Tensor> parameters,
                     OnGradient on_gradient)
    : parameters_(std::move(parameters)),
      on_gradient_(std::make_shared<const OnGradient>(std::move(on_gradient))) {
  check_free(owner, parameters_);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    autograd::impl::set_post_acc_grad_hooks(
        parameters_[i], std::make_unique<Hook>(owner, on_gradient_, i, take_hooks(parameters_[i])));
}

GradHooks::~GradHooks() {
  for (const torch::Tensor& p : parameters_)
    if (Hook* const hook = hook_of(p); hook != nullptr && hook->calls(on_gradient_))
      autograd::impl::set_post_acc_grad_hooks(p, hook->take_others());
}

}  // namespace jitstep
