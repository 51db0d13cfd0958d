#include "optim/options/module_parameters.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <unordered_map>

namespace jitstep {
namespace {

template <class... Modules>
bool is_one_of(const torch::nn::Module& module) {
  return ((dynamic_cast<const Modules*>(&module) != nullptr) || ...);
}

Layer layer_of(const torch::nn::Module& module) {
  using namespace torch::nn;
  if (is_one_of<EmbeddingImpl, EmbeddingBagImpl>(module)) return Layer::embedding;
  if (is_one_of<LayerNormImpl, GroupNormImpl, BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl,
                InstanceNorm1dImpl, InstanceNorm2dImpl, InstanceNorm3dImpl>(module))
    return Layer::normalization;
  return Layer::other;
}

bool has_word(const std::string& key, const std::string& word) {
  return ("_" + key + "_").find("_" + word + "_") != std::string::npos;
}

template <class Predicate>
bool in_any(const std::vector<ParameterIndex>& indices, const Predicate& predicate) {
  return std::any_of(indices.begin(), indices.end(), predicate);
}

}  // namespace

bool ModuleParameter::in(Layer layer) const {
  return in_any(indices, [&](const auto& index) { return index.layer == layer; });
}

bool ModuleParameter::is_bias() const {
  return in_any(indices, [](const auto& index) { return has_word(index.key, "bias"); });
}

bool ModuleParameter::is_named(const std::string& part) const {
  return in_any(indices,
                [&](const auto& index) { return index.name.find(part) != std::string::npos; });
}

std::vector<ModuleParameter> trained_parameters(const torch::nn::Module& module) {
  std::vector<ModuleParameter> parameters;
  std::size_t indices = 0;
  std::unordered_map<void*, std::size_t> seen;  // by TensorImpl, as in torch's optimizers
  module.apply([&](const std::string& path, const torch::nn::Module& owner) {
    for (const auto& item : owner.named_parameters(/*recurse=*/false)) {
      if (!item.value().requires_grad()) continue;
      const auto [found, added] =
          seen.emplace(item.value().unsafeGetTensorImpl(), parameters.size());
      if (added) parameters.push_back({item.value(), {}});
      const std::string name = path.empty() ? item.key() : path + "." + item.key();
      parameters[found->second].indices.push_back({name, item.key(), layer_of(owner), indices++});
    }
  });
  TORCH_CHECK(
      !parameters.empty(), "jitstep: the module ", module.name(),
      " has no parameter that requires a gradient. Register its layers with register_module, ",
      "and freeze parameters only after you made its groups.");
  return parameters;
}

}  // namespace jitstep
