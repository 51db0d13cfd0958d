#include "optim/state/weight_conversion.h"

#include <torch/types.h>

#include "jit/codegen/spec_text.h"
#include "jit/step/convert.h"
#include "jitstep/jit/layout.h"
#include "jitstep/jit/plan.h"
#include "optim/state/state_operations.h"
#include "optim/tensor/backends.h"
#include "optim/tensor/errors.h"
#include "optim/tensor/memory_overlap.h"
#include "optim/tensor/own_operations.h"

namespace jitstep {
namespace {

std::vector<std::int64_t> compact(torch::IntArrayRef sizes,
                                  const std::vector<std::int64_t>& strides) {
  return jit::compact_strides({sizes.vec(), strides});
}

// A copy of the values in the storage order of a tensor with these strides, without gaps.
torch::Tensor in_order(const torch::Tensor& values, const std::vector<std::int64_t>& strides) {
  const auto options = values.options().requires_grad(false);
  return torch::empty_strided(values.sizes(), compact(values.sizes(), strides), options)
      .copy_(values.detach());
}

// A view [sizes..., element_bytes] of `bytes`, which has `element_bytes` bytes for each element of a tensor of these
// sizes and strides, in its storage order.
torch::Tensor by_element(const torch::Tensor& bytes, std::int64_t element_bytes,
                         torch::IntArrayRef sizes, const std::vector<std::int64_t>& strides) {
  std::vector<std::int64_t> all = sizes.vec(), steps = compact(sizes, strides);
  for (std::int64_t& step : steps) step *= element_bytes;
  all.push_back(element_bytes);
  steps.push_back(1);
  return bytes.as_strided(all, steps);
}

}  // namespace

bool rewrites_parameter(const StateBuffers& stored, const jit::Plan& plan) {
  return stored.residual.defined() && plan.weights->residual_bytes() > 0 &&
         stored.format.weights != plan.spec.state.weights &&
         stored.format.dtype == plan.spec.state.dtype;
}

std::string weight_conversion_text(const StateBuffers& stored, const jit::Plan& plan) {
  const jit::StateFormat& wanted = plan.spec.state;
  const bool same_dtype = stored.format.dtype == wanted.dtype;
  if (!stored.residual.defined() || (same_dtype && stored.format.weights == wanted.weights))
    return {};
  const auto name = [&](const jit::StateFormat& format) {
    return same_dtype ? format.weights : format.weights + " in " + jit::to_string(format.dtype);
  };
  const bool kept = rewrites_parameter(stored, plan);
  return "weights from " + name(stored.format) + " to " + name(wanted) +
         (kept ? "" : ", without the residual");
}

torch::Tensor copy_if_rewritten(const StateBuffers& stored, const jit::Plan& plan,
                                const torch::Tensor& p) {
  return rewrites_parameter(stored, plan) ? p.detach().clone() : torch::Tensor();
}

void put_back(const torch::Tensor& p, const torch::Tensor& copy) {
  if (copy.defined()) overwrite(p.detach(), copy);
}

void check_residual(const StateBuffers& stored, std::int64_t elements) {
  const std::int64_t bytes = stored.plan->weights->residual_bytes() * elements;
  const torch::Tensor& residual = stored.residual;
  if (bytes == 0 && !residual.defined()) return;
  TORCH_CHECK(residual.numel() == bytes && residual.scalar_type() == torch::kUInt8 &&
                  residual.is_contiguous() && (bytes == 0 || has_data(residual)),
              "jitstep: the state has a residual of ", residual.numel(), " elements of ",
              residual.dtype(), ", but the weight format ", stored.format.weights, " needs ", bytes,
              " bytes. Load a complete checkpoint, or erase the state.");
}

torch::Tensor weights_of(const StateBuffers& stored, const std::vector<std::int64_t>& strides,
                         const torch::Tensor& p) {
  check_residual(stored, p.numel());
  return in_order(decode_weights(stored, in_order(p, strides)), p.strides().vec());
}

torch::Tensor reordered_residual(const StateBuffers& stored,
                                 const std::vector<std::int64_t>& strides, const torch::Tensor& p) {
  const std::int64_t element_bytes = stored.plan->weights->residual_bytes();
  const torch::Tensor result = torch::empty_like(stored.residual);
  by_element(result, element_bytes, p.sizes(), p.strides().vec())
      .copy_(by_element(stored.residual, element_bytes, p.sizes(), strides));
  return result;
}

torch::Tensor masked_residual(const StateBuffers& stored, const std::vector<std::int64_t>& strides,
                              const torch::Tensor& same) {
  torch::Tensor result = stored.residual.clone();
  by_element(result, stored.plan->weights->residual_bytes(), same.sizes(), strides)
      .mul_(same.unsqueeze(-1));
  return result;
}

void convert_weights(const StateBuffers& from, const std::vector<std::int64_t>& strides,
                     StateBuffers& to, const torch::Tensor& p) {
  if (p.numel() == 0) return;
  const torch::Tensor weights = weights_of(from, strides, p);
  const torch::Tensor rounded = torch::empty_like(weights, p.scalar_type());
  as_torch_error([&] {
    jit::encode_weights(backend_of(p.device()),
                        {*to.plan, step_tensor(rounded, to, rounded.strides()), to.t},
                        weights.data_ptr());
  });
  overwrite(p.detach(), rounded);
}

}  // namespace jitstep
