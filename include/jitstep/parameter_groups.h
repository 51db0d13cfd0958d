// Parameter groups from a module: without weight decay for biases and norms, and of matrices for Muon. Pass the results
// to an optimizer's constructor.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/options.h"

namespace jitstep {

/// Selects a parameter by its name in the module ("layer2.norm.weight") or by the tensor.
using ParameterPredicate =
    std::function<bool(const std::string& name, const torch::Tensor& parameter)>;

/// What decay_groups() excludes in addition to its default exclusions.
struct DecayExclusions {
  /// The weights of Embedding and EmbeddingBag.
  bool embeddings = false;
  /// Parameters whose name contains one of these. A string that no name contains throws a c10::Error.
  std::vector<std::string> names = {};
  /// Parameters for which it returns true. May be empty.
  ParameterPredicate predicate = {};
  /// If true, excluded parameters are still adapted to their norm, as with timm's `always_adapt`.
  bool always_adapt = false;
};

/// Two groups of a module's parameters: first those with `options` as they are, then those without weight decay. The
/// second group has scalars, vectors, biases of any shape ("bias" is a word of the name), and all parameters of
/// normalization layers, as LAMB's and LARS's authors train. It has weight_decay 0 and, for rules with layerwise
/// adaptation, `adapt` false, which means a trust ratio of 1. (In Apex's nvlamb weight_decay 0 implies the latter,
/// unless use_nvlamb is set. novograd has no trust ratio.) Either group may be empty. Parameters without requires_grad
/// are left out. A parameter that is registered several times is listed once, and excluded if one of its names is.
/// Throws a c10::Error if there is no trainable parameter, if the rule has neither option, as rprop, or if `options`
/// are GenericOptions without a rule.
JITSTEP_API std::vector<torch::optim::OptimizerParamGroup> decay_groups(
    const torch::nn::Module& module, const Options& options,
    const DecayExclusions& exclusions = {});

/// The same for a rule by name: decay_groups(*model, "lamb", GenericOptions(1e-3).set("weight_decay", 0.01)).
JITSTEP_API std::vector<torch::optim::OptimizerParamGroup> decay_groups(
    const torch::nn::Module& module, const std::string& rule, const GenericOptions& options,
    const DecayExclusions& exclusions = {});

/// What muon_groups() gives to the other rule in addition to everything that is not a matrix.
struct MuonExclusions {
  /// The weights of Embedding and EmbeddingBag.
  bool embeddings = true;
  /// The last registered matrix outside of embeddings, which is the network's output layer.
  bool last_layer = true;
  /// Parameters whose name contains one of these. A string that no name contains throws a c10::Error.
  std::vector<std::string> names = {};
  /// Parameters for which it returns true. May be empty.
  ParameterPredicate predicate = {};
};

/// Two groups for one Optimizer with two rules: first a module's hidden matrices for Muon, then all other parameters
/// for a rule such as AdamW, as Muon's author advises (github.com/KellerJordan/Muon):
///   Optimizer opt(muon_groups(*model, MuonOptions(0.02), AdamWOptions(3e-4)));  // or Muon opt(*model, ...)
/// A matrix has two dimensions: convolution kernels get the other rule, because torch's Muon does not accept them.
/// Parameters without requires_grad and shared parameters are treated as in decay_groups(). `muon` may be of any rule
/// that accepts only matrices, and `others` of any rule that accepts every shape. Throws a c10::Error if they are not,
/// or if there is no matrix for Muon.
JITSTEP_API std::vector<torch::optim::OptimizerParamGroup> muon_groups(
    const torch::nn::Module& module, const Options& muon, const Options& others,
    const MuonExclusions& exclusions = {});

}  // namespace jitstep
