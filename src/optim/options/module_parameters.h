// The trained parameters of a module, each with all its registrations.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace jitstep {

/// Kinds of layers whose parameters form separate groups.
enum class Layer { embedding, normalization, other };

/// One registration of a parameter.
struct ParameterIndex {
  std::string name;    // in the whole module: "layer2.norm.weight"
  std::string key;     // in its layer: "weight"
  Layer layer;         // Embedding and EmbeddingBag; layer, batch, group and instance normalization
  std::size_t number;  // in the order of registration
};

/// A parameter that requires a gradient.
struct ModuleParameter {
  torch::Tensor tensor;
  std::vector<ParameterIndex> indices;  // at least one; several if modules share the parameter

  /// True if one of its registrations is in such a layer, for any shape.
  bool in(Layer layer) const;
  /// True if one of its keys contains the word "bias", as "bias", "bias_ih_l0" and "in_proj_bias" do.
  bool is_bias() const;
  /// True if one of its names contains `part`.
  bool is_named(const std::string& part) const;
};

/// All parameters that require a gradient, in order of first registration. Throws a c10::Error if there are none.
std::vector<ModuleParameter> trained_parameters(const torch::nn::Module& module);

}  // namespace jitstep
