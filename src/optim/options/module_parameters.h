// The parameters of a module that are trained, each with every place where it is registered.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace jitstep {

/// Layers whose parameters are told from others.
enum class Layer { embedding, normalisation, other };

/// Where a module holds a parameter.
struct ParameterIndex {
  std::string name;    // in the whole module: "layer2.norm.weight"
  std::string key;     // in its layer: "weight"
  Layer layer;         // Embedding and EmbeddingBag; layer, batch, group and instance normalisation
  std::size_t number;  // in the order of registration
};

/// A parameter that requires a gradient.
struct ModuleParameter {
  torch::Tensor tensor;
  std::vector<ParameterIndex> indices;  // one at least; several if modules share it

  /// Whether it is one of such a layer, whatever its shape.
  bool in(Layer layer) const;
  /// Whether a word of its key is "bias", as in "bias", "bias_ih_l0" and "in_proj_bias".
  bool is_bias() const;
  /// Whether one of its names contains the text.
  bool is_named(const std::string& part) const;
};

/// All of them, in the order of first registration. A c10::Error if there are none.
std::vector<ModuleParameter> trained_parameters(const torch::nn::Module& module);

}  // namespace jitstep
