#include "optim/state/weight_conversion.h"

#include <torch/types.h>

#include "jit/step/convert.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/machines.h"

namespace jitstep {
namespace {

// The same values in the storage order of a tensor with these strides, without gaps.
torch::Tensor in_order(const torch::Tensor& values, const std::vector<std::int64_t>& strides) {
  const jit::Shape shape{values.sizes().vec(), strides};
  const auto options = values.options().requires_grad(false);
  return torch::empty_strided(values.sizes(), jit::compact_strides(shape), options)
      .copy_(values.detach());
}

}  // namespace

bool rewrites_parameter(const StateBuffers& held, const jit::Plan& plan) {
  return held.extra.defined() && plan.weights->extra_bytes() > 0 &&
         held.format.weights != plan.spec.state.weights &&
         held.format.dtype == plan.spec.state.dtype;
}

torch::Tensor copy_if_rewritten(const StateBuffers& held, const jit::Plan& plan,
                                const torch::Tensor& p) {
  return rewrites_parameter(held, plan) ? p.detach().clone() : torch::Tensor();
}

void put_back(const torch::Tensor& p, const torch::Tensor& copy) {
  if (copy.defined()) p.detach().copy_(copy);
}

void convert_weights(const StateBuffers& from, const std::vector<std::int64_t>& strides,
                     StateBuffers& to, const torch::Tensor& p) {
  const std::int64_t bytes = from.plan->weights->extra_bytes() * p.numel();
  TORCH_CHECK(from.extra.numel() == bytes, "the state holds ", from.extra.numel(),
              " bytes beside the parameter, where the weight format ", from.format.weights,
              " keeps ", bytes, "; load an archive that is whole, or erase the state");
  if (p.numel() == 0) return;
  const torch::Tensor weights =
      in_order(decode_weights(from, in_order(p, strides)), p.strides().vec());
  const torch::Tensor rounded = torch::empty_like(weights, p.scalar_type());
  as_argument_error([&] {
    jit::encode_weights(machine_of(p.device()),
                        {*to.plan, step_tensor(rounded, to, rounded.strides()), to.t},
                        weights.data_ptr());
  });
  p.detach().copy_(rounded);
}

}  // namespace jitstep
