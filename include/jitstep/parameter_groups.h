// Parameter groups made from a module: who takes weight decay, and which parameters an optimizer of matrices
// is for. What they return is for an optimizer's constructor.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <string>
#include <vector>

#include "jitstep/jit/export.h"
#include "jitstep/options.h"

namespace jitstep {

/// Chooses a parameter by its name in the module ("layer2.norm.weight") or by the tensor itself.
using ParameterPredicate =
    std::function<bool(const std::string& name, const torch::Tensor& parameter)>;

/// What decay_groups excludes beside what it always does.
struct DecayExclusions {
  /// The weights of Embedding and EmbeddingBag.
  bool embeddings = false;
  /// Parameters whose name contains one of these. One that no name contains is a c10::Error.
  std::vector<std::string> names = {};
  /// Parameters for which it returns true. May be empty.
  ParameterPredicate predicate = {};
  /// Whether what is excluded from decay is adapted to its norm all the same, as timm's `always_adapt`.
  bool always_adapt = false;
};

/// Two groups of a module's parameters: first those with these options as they are, then those without weight
/// decay. The second has scalars, vectors, biases of any shape (a word of the name is "bias") and everything in
/// normalisation layers, as LAMB's and LARS's authors train. There weight_decay is 0 and, for rules with layerwise
/// adaptation, `adapt` false: a trust ratio of 1. (Apex's nvlamb takes the former for the latter, unless
/// use_nvlamb is set; novograd has no trust ratio.) Either group may be empty. A parameter that requires no gradient
/// is left out; one that is registered in several places is listed once, excluded if it is so in one of them.
/// A c10::Error if there is none to be trained, if the rule has neither of the two options, as rprop, or if the
/// options are GenericOptions that name no rule yet.
JITSTEP_API std::vector<torch::optim::OptimizerParamGroup> decay_groups(
    const torch::nn::Module& module, const Options& options,
    const DecayExclusions& exclusions = {});

/// The same for a rule by name: decay_groups(*model, "lamb", GenericOptions(1e-3).set("weight_decay", 0.01)).
JITSTEP_API std::vector<torch::optim::OptimizerParamGroup> decay_groups(
    const torch::nn::Module& module, const std::string& rule, const GenericOptions& options,
    const DecayExclusions& exclusions = {});

/// What muon_groups gives to the other rule beside what is no matrix.
struct MuonExclusions {
  /// The weights of Embedding and EmbeddingBag.
  bool embeddings = true;
  /// The matrix that is registered last, outside of embeddings: that of the layer which makes a network's output.
  bool last_layer = true;
  /// Parameters whose name contains one of these. One that no name contains is a c10::Error.
  std::vector<std::string> names = {};
  /// Parameters for which it returns true. May be empty.
  ParameterPredicate predicate = {};
};

/// Two groups for one Optimizer of two rules: first a module's hidden matrices, for Muon, then everything else, for a
/// rule such as AdamW, as Muon's author advises (github.com/KellerJordan/Muon):
///   Optimizer opt(muon_groups(*model, MuonOptions(0.02), AdamWOptions(3e-4)));  // or Muon opt(*model, ...)
/// A matrix has two dimensions: kernels of convolutions go to the other rule, as torch's Muon takes none. Parameters
/// that are frozen or shared are treated as by decay_groups. `muon` may be of any rule that refuses what is no matrix,
/// `others` of any that does not. A c10::Error if they are not, or if no matrix is left for Muon.
JITSTEP_API std::vector<torch::optim::OptimizerParamGroup> muon_groups(
    const torch::nn::Module& module, const Options& muon, const Options& others,
    const MuonExclusions& exclusions = {});

}  // namespace jitstep
