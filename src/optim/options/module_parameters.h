// The parameters of a module that are trained, each with every place where it is registered.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace jitstep {

/// Where a module holds a parameter.
struct ParameterPlace {
  std::string name;                // in the whole module: "layer2.norm.weight"
  std::string key;                 // in its owner: "weight"
  const torch::nn::Module* owner;  // as long as the module lives
};

/// A parameter that requires a gradient.
struct ModuleParameter {
  torch::Tensor tensor;
  std::vector<ParameterPlace> places;  // one at least; several if modules share it

  /// Whether it is one of an Embedding or EmbeddingBag.
  bool in_embedding() const;
  /// Whether it is one of a layer or batch normalisation or the like, whatever its shape.
  bool in_normalisation() const;
  /// Whether a word of its key is "bias", as in "bias", "bias_ih_l0" and "in_proj_bias".
  bool is_bias() const;
  /// Whether one of its names contains the text.
  bool is_named(const std::string& part) const;
};

/// All of them, in the order of first registration. A c10::Error if there are none.
std::vector<ModuleParameter> trained_parameters(const torch::nn::Module& module);

}  // namespace jitstep
