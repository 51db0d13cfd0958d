#include "optim/tensor/checks.h"

#include <torch/types.h>

#include <algorithm>
#include <string>
#include <unordered_map>

#include "jitstep/hyper_params.h"
#include "jitstep/jit/layout.h"
#include "optim/tensor/kernel_tensors.h"
#include "optim/tensor/memory_overlap.h"

namespace jitstep {
namespace {

void check_kind(const torch::Tensor& p, const ParameterName& name) {
  TORCH_CHECK(!p.is_nested(), "jitstep: parameter ", name.index, " of group ", name.group,
              " is a nested tensor. Make each of its tensors a separate parameter.");
  TORCH_CHECK(p.layout() == torch::kStrided, "jitstep: ", describe(p, name), " has the layout ",
              p.layout(), ". Only dense parameters can be trained. Call to_dense().");
  TORCH_CHECK(!p.is_complex(), "jitstep: ", describe(p, name),
              " is complex. Make a real parameter, such as "
              "torch::view_as_real(p.detach()).requires_grad_(), and ",
              "compute with torch::view_as_complex() of it.");
  TORCH_CHECK(p.is_floating_point(), "jitstep: ", describe(p, name),
              " is not floating point. Convert it to ", jit::kDtypeList, ", or leave it out.");
  with_context(p, name, [&] { dtype_of(p); });
  TORCH_CHECK(p.has_storage(), "jitstep: ", describe(p, name),
              " has no storage. Give the optimizer the tensor that it wraps.");
  TORCH_CHECK(p.is_cpu() || p.is_cuda(), "jitstep: ", describe(p, name), " is on ", p.device(),
              ". Only CPU and CUDA devices have kernels. Move it to one of them first.");
  TORCH_CHECK(!p.is_neg(), "jitstep: ", describe(p, name),
              " is a negated view of other memory. Give the optimizer its resolve_neg().");
}

void check_layout(const torch::Tensor& p, const ParameterName& name) {
  TORCH_CHECK(jit::is_non_overlapping(shape_of(p)), "jitstep: ", describe(p, name),
              " has elements that share memory, as after expand(). Give the optimizer a ",
              "contiguous() copy.");
}

constexpr const char* kFrozenAdvice =
    " does not require a gradient, so backward() does not train it. Call requires_grad_() or leave "
    "it out";

bool is_frozen(const torch::Tensor& p) { return !p.requires_grad() && !p.grad().defined(); }

// Throws with the reason why kernels cannot read the gradient.
void refuse_kind(const torch::Tensor& p, const torch::Tensor& g, const ParameterName& name) {
  TORCH_CHECK(!g.is_nested(), "jitstep: the gradient of ", describe(p, name),
              " is a nested tensor. Make each of its tensors a separate parameter.");
  TORCH_CHECK(g.layout() == torch::kStrided, "jitstep: the gradient of ", describe(p, name), " is ",
              g.is_mkldnn() ? "" : "sparse, ", "with layout ", g.layout(),
              ". Only dense gradients are supported. Call to_dense(), or build the layer with ",
              "sparse(false).");
  TORCH_CHECK(g.device() == p.device(), "jitstep: the gradient of ", describe(p, name), " is on ",
              g.device(), " and the parameter on ", p.device(), ". Move one of them.");
  TORCH_CHECK(g.sizes() == p.sizes(), "jitstep: the gradient of ", describe(p, name),
              " has the shape ", g.sizes(), ". Recompute it for this parameter.");
  TORCH_CHECK(g.is_floating_point(), "jitstep: the gradient of ", describe(p, name), " is ",
              g.dtype(), ". Convert it to ", jit::kDtypeList, ".");
  with_context(p, name, [&] { dtype_of(g); });
}

void refuse_memory(const torch::Tensor& p, const torch::Tensor& g, const ParameterName& name) {
  TORCH_CHECK(has_data(p), "jitstep: the storage of ", describe(p, name),
              " was freed (it has 0 bytes). Restore the values before step().");
  TORCH_CHECK(has_data(g), "jitstep: the gradient of ", describe(p, name),
              " has no data. Recompute it.");
  const bool same = p.const_data_ptr() == g.const_data_ptr() && p.strides() == g.strides() &&
                    p.scalar_type() == g.scalar_type();
  TORCH_CHECK(same || !share_memory(p, g), "jitstep: the gradient of ", describe(p, name),
              " shares memory with the parameter, but not element by element. clone() it.");
}

}  // namespace

void check_parameter(const torch::Tensor& p, const ParameterName& name) {
  TORCH_CHECK(p.defined(), "jitstep: parameter ", name.index, " of group ", name.group,
              " is an undefined tensor. Leave it out.");
  TORCH_CHECK(
      p.is_leaf(), "jitstep: can't optimize a non-leaf Tensor: ", describe(p, name),
      " is the result of an operation. Give the optimizer the tensor it was computed from, ",
      "or detach() it.");
  check_tensor(p, name);
}

void check_tensor(const torch::Tensor& p, const ParameterName& name) {
  check_kind(p, name);
  check_layout(p, name);
}

void check_frozen(const std::vector<torch::Tensor>& parameters, const ParameterName& first,
                  NonTrainablePolicy policy) {
  const auto found = std::find_if(parameters.begin(), parameters.end(), is_frozen);
  if (found == parameters.end()) return;
  const auto index = static_cast<std::size_t>(found - parameters.begin());
  const std::string name = describe(*found, {first.group, first.index + index});
  TORCH_CHECK(policy == NonTrainablePolicy::warn, "jitstep: ", name, kFrozenAdvice, ".");
  const auto more = std::count_if(found + 1, parameters.end(), is_frozen);
  const std::string others = more == 0 ? "" : c10::str(" (", more, " more like it)");
  TORCH_WARN("jitstep: ", name, kFrozenAdvice, others, ".");
}

void warn_of_repeated(const std::vector<torch::Tensor>& parameters, const ParameterName& first) {
  std::unordered_map<const void*, std::vector<std::size_t>> places;
  const std::vector<std::size_t>* again = nullptr;  // of the first duplicate
  int others = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<std::size_t>& own = places[parameters[i].unsafeGetTensorImpl()];
    own.push_back(i);
    if (own.size() != 2) continue;
    if (again == nullptr)
      again = &own;
    else
      ++others;
  }
  if (again == nullptr) return;
  const std::size_t index = again->front();
  const std::string more = others == 0 ? "" : c10::str(" (", others, " more like it)");
  TORCH_WARN("jitstep: ", describe(parameters[index], {first.group, first.index + index}),
             " is listed ", again->size(), " times in its group, again as parameter ",
             first.index + (*again)[1], more,
             ". parameters() of modules that share a parameter lists it so. It is stepped once.");
}

torch::Tensor materialized(const torch::Tensor& g) {
  return g._is_zerotensor() ? torch::zeros(g.sizes(), g.options()) : g.resolve_neg();
}

void check_gradient(const torch::Tensor& p, const torch::Tensor& g, const ParameterName& name) {
  const bool kind = g.layout() == torch::kStrided && g.device() == p.device() && !g.is_nested() &&
                    g.sizes() == p.sizes() && is_supported(g.scalar_type());
  if (!kind) refuse_kind(p, g, name);
  check_gradient_memory(p, g, name);
}

void check_gradient_memory(const torch::Tensor& p, const torch::Tensor& g,
                           const ParameterName& name) {
  if (p.numel() == 0) return;
  if (!has_data(p) || !has_data(g) || may_share_memory(p, g)) refuse_memory(p, g, name);
}

}  // namespace jitstep
