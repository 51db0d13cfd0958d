// Groups that jitstep makes from a module: their parameters, their options, and their training.
#include "jitstep/parameter_groups.h"

#include <torch/nn.h>

#include <algorithm>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using torch::optim::OptimizerParamGroup;
using Names = std::vector<std::string>;

// The last layer of a language model. It shares the embedding's weight.
struct TiedHeadImpl : torch::nn::Module {
  explicit TiedHeadImpl(const torch::Tensor& shared) {
    weight = register_parameter("weight", shared);
    bias = register_parameter("bias", torch::zeros({shared.size(0)}));
  }
  torch::Tensor weight, bias;
};
TORCH_MODULE(TiedHead);

// Every kind of parameter that decay_groups() and muon_groups() distinguish.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("words", words);
    register_module("body", body);
    register_module("attention", attention);
    register_module("head", head);
    scale = register_parameter("scale", torch::ones({}));
    frozen = register_parameter("frozen", torch::ones({2, 2}), /*requires_grad=*/false);
  }
  torch::nn::Embedding words{6, 4};
  torch::nn::ModuleList body{
      torch::nn::Conv2d(1, 2, 3), torch::nn::BatchNorm2d(2),
      torch::nn::Sequential(torch::nn::Linear(4, 4),
                            torch::nn::LayerNorm(torch::nn::LayerNormOptions({2, 4})))};
  torch::nn::MultiheadAttention attention{
      torch::nn::MultiheadAttentionOptions(4, 1).add_bias_kv(true)};
  TiedHead head{words->weight};
  torch::Tensor scale, frozen;
};
TORCH_MODULE(Net);

// The name under which each parameter of a group was first registered.
Names names_of(const torch::nn::Module& module, const OptimizerParamGroup& group) {
  Names names;
  for (const auto& p : group.params())
    for (const auto& item : module.named_parameters())
      if (item.value().is_same(p)) {
        names.push_back(item.key());
        break;
      }
  return names;
}

const Names kMatrices = {"words.weight", "body.0.weight", "body.2.0.weight",
                         "attention.in_proj_weight", "attention.out_proj.weight"};

TEST(DecayGroups, BiasesVectorsAndNormalizationLayersAreExcludedWhateverTheirShape) {
  const Net net;
  const auto groups = decay_groups(*net, AdamWOptions());
  ASSERT_EQ(groups.size(), 2u);
  Names decayed = names_of(*net, groups[0]), excluded = names_of(*net, groups[1]);
  Names expected = kMatrices;
  std::sort(decayed.begin(), decayed.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(decayed, expected);
  // Three-dimensional, two-dimensional, and scalar parameters.
  for (const char* name : {"attention.bias_k", "body.2.1.weight", "scale", "head.bias"})
    EXPECT_TRUE(std::find(excluded.begin(), excluded.end(), name) != excluded.end()) << name;
  EXPECT_EQ(decayed.size() + excluded.size(), net->parameters().size() - 2);  // frozen, and shared
}

TEST(DecayGroups, MoreParametersAreExcludedByKindNameAndPredicate) {
  const Net net;
  const auto left = [&](const DecayExclusions& exclusions) {
    Names out, in = names_of(*net, decay_groups(*net, AdamWOptions(), exclusions)[0]);
    for (const std::string& name : kMatrices)
      if (std::find(in.begin(), in.end(), name) == in.end()) out.push_back(name);
    return out;
  };
  EXPECT_EQ(left({}), Names{});
  EXPECT_EQ(left({.embeddings = true}), Names{"words.weight"});
  EXPECT_EQ(left({.names = {"body.2", "in_proj"}}),
            (Names{"body.2.0.weight", "attention.in_proj_weight"}));
  EXPECT_EQ(left({.predicate = [](const std::string&, const auto& p) { return p.dim() == 4; }}),
            Names{"body.0.weight"});
  // The head shares its weight with the embedding, so the head's name selects it too.
  EXPECT_EQ(left({.names = {"head.weight"}}), Names{"words.weight"});
}

TEST(DecayGroups, ExcludedParametersHaveNeitherDecayNorAdaptation) {
  const Net net;
  const auto options = [&](const DecayExclusions& exclusions, std::size_t group) {
    const auto given = LAMBOptions(0.5).weight_decay(0.01).state("int8");
    const auto groups = decay_groups(*net, given, exclusions);
    return static_cast<const LAMBOptions&>(groups[group].options());
  };
  EXPECT_TRUE(options({}, 0) == LAMBOptions(0.5).weight_decay(0.01).state("int8"));
  EXPECT_TRUE(options({}, 1) == LAMBOptions(0.5).adapt(false).state("int8"));
  EXPECT_TRUE(options({.always_adapt = true}, 1) == LAMBOptions(0.5).state("int8"));
}

TEST(DecayGroups, AnExcludedGroupKeepsItsZeroUnderDefaultsThatDecay) {
  const Net net;
  AdamW optimizer(decay_groups(*net, AdamWOptions(0.1)), AdamWOptions().weight_decay(0.7));
  EXPECT_EQ(static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).weight_decay(), 0.7);
  EXPECT_EQ(static_cast<AdamWOptions&>(optimizer.param_groups()[1].options()).weight_decay(), 0);
}

TEST(DecayGroups, EveryRuleWithDecayIsFoundByNameAndOthersThrow) {
  const torch::nn::Sequential net(torch::nn::Linear(torch::nn::LinearOptions(3, 2).bias(false)),
                                  torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)));
  for (const std::string& rule : shipped(jit::Manifest::Kind::rule)) {
    SCOPED_TRACE(rule);
    const auto given = make_options(rule);
    GenericOptions options;
    const auto& names = given->names();
    const bool decays = std::find(names.begin(), names.end(), "weight_decay") != names.end();
    if (!decays) {
      EXPECT_HAS(argument_error([&] { decay_groups(*net, rule, options); }),
                 rule + ": it has no option weight_decay and no adapt");
      continue;
    }
    options.set("weight_decay", 0.25);
    Optimizer optimizer(rule, decay_groups(*net, rule, options, {.names = {"1.weight"}}));
    const auto value = [&](std::size_t group, const char* name) {
      return static_cast<Options&>(optimizer.param_groups()[group].options()).get(name);
    };
    EXPECT_EQ(value(0, "weight_decay").number(), 0.25);
    EXPECT_EQ(value(1, "weight_decay").number(), 0);
  }
}

// Compares steps of a LAMB with groups from decay_groups() to one with a group per kind of parameter.
TEST(DecayGroups, ANetworkTrainsAsWithGroupsWrittenByHand) {
  torch::manual_seed(3);
  const torch::nn::Sequential net(torch::nn::Linear(5, 4), torch::nn::Linear(4, 3));
  const Tensors ours = net->parameters();
  const Tensors theirs = clones(ours);
  LAMB a(decay_groups(*net, LAMBOptions(0.1).weight_decay(0.3)));
  LAMB matrices({theirs[0], theirs[2]}, LAMBOptions(0.1).weight_decay(0.3));
  torch::optim::Adam biases({theirs[1], theirs[3]}, torch::optim::AdamOptions(0.1).eps(1e-6));
  for (int step = 1; step <= 4; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    a.step();
    matrices.step();
    biases.step();
  }
  EXPECT_TRUE(torch::equal(ours[0], theirs[0]));
  EXPECT_TRUE(torch::equal(ours[2], theirs[2]));
  expect_close(ours, theirs, 1e-5, 1e-6);
}

TEST(DecayGroups, AMistakeIsAnErrorWithAFix) {
  const Net net;
  EXPECT_HAS(argument_error([&] { decay_groups(*net, GenericOptions(0.1)); }),
             "*make_options(\"adamw\", options)");
  EXPECT_HAS(argument_error([&] { decay_groups(*net, AdamWOptions(), {.names = {"boddy"}}); }),
             "no name of a trained parameter contains \"boddy\"");
  const torch::nn::ReLU empty;
  EXPECT_HAS(argument_error([&] { decay_groups(*empty, AdamWOptions()); }),
             "has no parameter that requires a gradient");
  EXPECT_HAS(argument_error([&] { decay_groups(*net, "no_such_rule", {}); }), "no_such_rule");
}

TEST(MuonGroups, GiveHiddenMatricesToMuonAndTheRestToTheOther) {
  const Net net;
  const auto muons = [&](const MuonExclusions& exclusions) {
    const auto groups = muon_groups(*net, MuonOptions(0.02), AdamWOptions(0.1), exclusions);
    EXPECT_TRUE(static_cast<const MuonOptions&>(groups[0].options()) == MuonOptions(0.02));
    EXPECT_TRUE(static_cast<const AdamWOptions&>(groups[1].options()) == AdamWOptions(0.1));
    EXPECT_EQ(groups[0].params().size() + groups[1].params().size(), net->parameters().size() - 2);
    return names_of(*net, groups[0]);
  };
  const Names hidden = {"body.2.0.weight", "attention.in_proj_weight", "attention.out_proj.weight"};
  EXPECT_EQ(muons({}), hidden) << "the last layer shares the embedding's weight";
  EXPECT_EQ(muons({.embeddings = false}), hidden);
  EXPECT_EQ(muons({.embeddings = false, .last_layer = false}).front(), "words.weight");
  EXPECT_EQ(muons({.names = {"attention"}}), Names{hidden[0]});
  const auto is_first = [&](const std::string& name, const auto&) { return name == hidden[0]; };
  EXPECT_EQ(muons({.predicate = is_first}), (Names{hidden[1], hidden[2]}));
}

TEST(MuonGroups, GiveAnUntiedLastLayerToTheOtherUnlessRequested) {
  const torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::Linear(4, 4),
                                  torch::nn::Linear(4, 2),
                                  torch::nn::LayerNorm(torch::nn::LayerNormOptions({4, 2})));
  const auto muons = [&](const MuonExclusions& exclusions) {
    return names_of(*net, muon_groups(*net, MuonOptions(), AdamWOptions(), exclusions)[0]);
  };
  EXPECT_EQ(muons({}), (Names{"0.weight", "1.weight"}));
  EXPECT_EQ(muons({.last_layer = false}), (Names{"0.weight", "1.weight", "2.weight"}));
}

TEST(MuonGroups, ThrowWithoutAHiddenMatrix) {
  const torch::nn::Sequential net(torch::nn::Linear(3, 2));
  const auto groups = [&](const MuonExclusions& exclusions) {
    return muon_groups(*net, MuonOptions(), AdamWOptions(), exclusions);
  };
  EXPECT_HAS(
      argument_error([&] { groups({}); }),
      "Set last_layer to false to include the last layer's, or use an optimizer of adamw alone");
  EXPECT_EQ(groups({.last_layer = false})[0].params().size(), 1u);
  EXPECT_HAS(argument_error([&] { groups({.names = {"weight"}}); }),
             "no hidden matrix for muon among the trained parameters. Use an optimizer of adamw");
  EXPECT_HAS(argument_error([&] { muon_groups(*net, GenericOptions(), AdamWOptions()); }),
             "GenericOptions name no optimizer");
}

TEST(MuonGroups, RequireARuleForMatricesAndOneForAnyShape) {
  const torch::nn::Sequential net(torch::nn::Linear(3, 4), torch::nn::Linear(4, 4));
  EXPECT_HAS(argument_error([&] { muon_groups(*net, AdamWOptions(0.1), AdamWOptions(0.2)); }),
             "wrong first options of muon_groups: adamw accepts parameters of any shape");
  EXPECT_HAS(argument_error([&] { Muon(*net, MuonOptions(), MuonOptions()); }),
             "wrong second options of muon_groups: muon accepts matrices only");
  EXPECT_EQ(muon_groups(*net, MuonOptions(), *make_options("lion")).size(), 2u);
}

// ---- a trust ratio of 1 ----

template <class Ours, class Theirs>
void expect_same_training(const Ours& make_ours, const Theirs& make_theirs) {
  Tensors ours = make_parameters(torch::kFloat64), theirs = clones(ours);
  auto a = make_ours(ours);
  auto b = make_theirs(theirs);
  train(a, ours, 1, 5);
  train(b, theirs, 1, 5);
  expect_close(ours, theirs, 1e-12, 1e-12);
}

TEST(DecayGroups, WithoutAdaptationLambAndItsRelativesAreAdamW) {
  const auto theirs = [](const Tensors& p) {
    return torch::optim::AdamW(p, torch::optim::AdamWOptions(0.1).eps(1e-6).weight_decay(0.2));
  };
  expect_same_training(
      [](const Tensors& p) { return LAMB(p, LAMBOptions(0.1).weight_decay(0.2).adapt(false)); },
      theirs);
  expect_same_training(
      [](const Tensors& p) {
        return LAMB16(
            p,
            LAMB16Options(0.1).weight_decay(0.2).form(LAMB16Options::Form::corrected).adapt(false));
      },
      theirs);
}

TEST(DecayGroups, WithoutDecayNvlambIsAdam) {
  expect_same_training(
      [](const Tensors& p) {
        return NVLAMB(p, NVLAMBOptions(0.1).weight_decay(0).max_grad_norm(0));
      },
      [](const Tensors& p) {
        return torch::optim::Adam(p, torch::optim::AdamOptions(0.1).eps(1e-6));
      });
}

TEST(DecayGroups, WithoutAdaptationLarsAndLarcAreSgd) {
  using Form = LARSOptions::MomentumForm;
  using Norm = LARSOptions::TrustNorm;
  for (const bool nesterov : {false, true})
    for (const Form form : {Form::classic, Form::popular, Form::scaled})
      for (const Norm norm : {Norm::separate, Norm::update}) {
        if (norm == Norm::update && form != Form::popular) continue;
        SCOPED_TRACE(static_cast<int>(form));
        expect_same_training(
            [&](const Tensors& p) {
              return LARS(p, LARSOptions(0.1)
                                 .weight_decay(0.2)
                                 .nesterov(nesterov)
                                 .momentum_form(form)
                                 .trust_norm(norm)
                                 .adapt(false));
            },
            [&](const Tensors& p) {
              return torch::optim::SGD(
                  p,
                  torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.2).nesterov(nesterov));
            });
      }
  expect_same_training(
      [](const Tensors& p) {
        return LARC(p, LARCOptions(0.1).momentum(0.8).weight_decay(0.2).adapt(false));
      },
      [](const Tensors& p) {
        return torch::optim::SGD(p, torch::optim::SGDOptions(0.1).momentum(0.8).weight_decay(0.2));
      });
}

}  // namespace
}  // namespace jitstep::tests
