#include "jitstep/options.h"

#include "jitstep/jit/catalog.h"
#include "jitstep/jit/error.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

using jit::Option;
using jit::Value;

std::vector<std::string> shipped_rules() {
  // Its own store, because other tests load rules into the default one.
  static jit::TemplateStore store;
  return jit::Catalog(store).names(jit::Manifest::Kind::rule);
}

// A value that differs from the default and that the option accepts.
Value other_value(const Option& option) {
  switch (option.type) {
    case Option::Type::number:
      return option.initial.number() == 0.25 ? 0.125 : 0.25;
    case Option::Type::nullable:
      return option.initial.is_null() ? Value(0.5) : Value();
    case Option::Type::numbers:
      return Value::Numbers(static_cast<std::size_t>(option.count), 0.625);
    case Option::Type::list:
      return Value::Numbers{0.25, 0.5};
    case Option::Type::boolean:
      return !option.initial.boolean();
    case Option::Type::choice:
      return option.initial.choice() == option.choices[0] ? option.choices.back()
                                                          : option.choices[0];
  }
  return {};
}

// Whether the rule accepts that value together with the defaults of its other options.
bool is_accepted(const std::string& rule, const std::string& name, const Value& value) {
  jit::OptionValues values(rule);
  try {
    values.set(name, value);
    values.validate();
  } catch (const jit::Error&) {
    return false;
  }
  return true;
}

template <class Check>
void for_every_option(Check check) {
  for (const auto& rule : shipped_rules()) {
    const jit::OptionValues declared(rule);
    for (const auto& name : declared.names()) {
      SCOPED_TRACE(rule + "." + name);
      check(rule, name, declared.declaration(name));
    }
  }
}

TEST(Options, EveryShippedRuleHasItsClass) {
  for (const auto& rule : shipped_rules()) {
    const auto options = make_options(rule);
    EXPECT_EQ(dynamic_cast<const GenericOptions*>(options.get()), nullptr) << rule;
    EXPECT_EQ(options->rule(), rule);
    EXPECT_EQ(options->names(), jit::OptionValues(rule).names());
    EXPECT_EQ(options->values(), jit::OptionValues(rule)) << "defaults differ from the manifest";
  }
}

TEST(Options, EveryOptionCountsAsSetAfterAChange) {
  for_every_option([](const std::string& rule, const std::string& name, const Option& option) {
    auto options = make_options(rule);
    EXPECT_FALSE(options->is_set(name));
    options->put(name, option.initial);
    EXPECT_TRUE(options->is_set(name));
    EXPECT_EQ(options->get(name), option.initial);
    options->put(name, other_value(option));
    EXPECT_EQ(options->get(name), other_value(option));
  });
}

TEST(Options, EveryOptionIsInheritedUnlessSet) {
  for_every_option([](const std::string& rule, const std::string& name, const Option& option) {
    auto defaults = make_options(rule), group = make_options(rule), setting = make_options(rule);
    defaults->put(name, other_value(option));
    group->inherit(*defaults);
    EXPECT_EQ(group->get(name), other_value(option));
    setting->put(name, option.initial);
    setting->inherit(*defaults);
    EXPECT_EQ(setting->get(name), option.initial);
  });
}

TEST(Options, AGroupMergesWithTheOptimizersDefaultsForEveryOption) {
  int merged = 0;
  for_every_option([&](const std::string& rule, const std::string& name, const Option& option) {
    // Such values are nesterov without momentum, or a number that the group derives from another one.
    if (!is_accepted(rule, name, other_value(option)) || !option.at_construction.empty()) return;
    ++merged;
    const Tensors parameters = make_parameters(torch::kFloat32, {{5, 3}, {4, 2}});
    GenericOptions defaults;
    defaults.set(name, other_value(option));
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(Tensors{parameters[0]}, std::make_unique<GenericOptions>());
    groups.emplace_back(Tensors{parameters[1]}, std::make_unique<GenericOptions>(
                                                    GenericOptions().set(name, option.initial)));
    Optimizer optimizer(rule, groups, defaults);
    const auto& inherited = static_cast<Options&>(optimizer.param_groups()[0].options());
    const auto& own = static_cast<Options&>(optimizer.param_groups()[1].options());
    EXPECT_EQ(inherited.get(name), other_value(option));
    EXPECT_EQ(own.get(name), option.initial);
  });
  EXPECT_GT(merged, 300) << "about forty rules have more options than that";
}

TEST(Options, EveryOptionIsSavedAndLoaded) {
  for_every_option([](const std::string& rule, const std::string& name, const Option& option) {
    auto options = make_options(rule), loaded = make_options(rule);
    options->put(name, other_value(option));
    serialize_through_archive(*options, *loaded);
    EXPECT_TRUE(*loaded == *options);
  });
}

TEST(Options, EveryOptionReachesTheNumbersOfKernelsAsFromAManifest) {
  for_every_option([](const std::string& rule, const std::string& name, const Option& option) {
    auto options = make_options(rule);
    jit::OptionValues declared(rule);
    options->put(name, other_value(option));
    EXPECT_FALSE(options->values() == declared);
    declared.set(name, other_value(option));
    EXPECT_EQ(options->values(), declared);
    EXPECT_EQ(options->values().flags(), declared.flags());
    EXPECT_EQ(Value(options->values().hyper()), Value(declared.hyper()));
    EXPECT_EQ(options->copy()->get(name), other_value(option));
  });
}

TEST(Options, SettersChainAndGettersGiveReferences) {
  AdamWOptions options = AdamWOptions(1e-2).betas({0.8, 0.99}).amsgrad(true).state("int8").seed(5);
  EXPECT_EQ(options.lr(), 1e-2);
  EXPECT_EQ(std::get<0>(options.betas()), 0.8);
  options.weight_decay() = 0.5;
  EXPECT_TRUE(options.is_set("weight_decay"));
  EXPECT_FALSE(options.is_set("eps"));
  EXPECT_EQ(options.decay(), AdamWOptions::Decay::before);
  EXPECT_EQ(options.decay(AdamWOptions::Decay::after).get("decay"), Value("after"));
  EXPECT_EQ(options.seed(), 5u);
  EXPECT_EQ(options.formats().state->name, "int8");
  LAMBOptions lamb;
  EXPECT_FALSE(lamb.weight_norm_max().has_value());
  EXPECT_EQ(lamb.weight_norm_max(10.0).weight_norm_max(), 10.0);
}

TEST(Options, LearningRateThroughTorchsInterface) {
  SGDOptions options(0.5);
  torch::optim::OptimizerOptions& base = options;
  EXPECT_EQ(base.get_lr(), 0.5);
  base.set_lr(0.25);
  EXPECT_EQ(options.lr(), 0.25);
  EXPECT_EQ(base.clone()->get_lr(), 0.25);
}

TEST(Options, EqualityComparesValuesAndFormats) {
  EXPECT_TRUE(AdamOptions(1e-3) == AdamOptions());
  EXPECT_FALSE(AdamOptions(1e-2) == AdamOptions());
  EXPECT_FALSE(AdamOptions().state("int8") == AdamOptions());
  EXPECT_TRUE(AdamOptions().state("int8") == AdamOptions().state("int8"));
}

TEST(Options, InheritFormatsFieldByField) {
  AdamWOptions defaults, group, other;
  defaults.state("int8").state("v", "bf16").seed(3).min_quantized_size(0);
  group.state("m", "fp32");
  group.inherit(defaults);
  EXPECT_EQ(group.formats().state->name, "int8");
  EXPECT_EQ(group.formats().slots.at("m").name, "fp32");
  EXPECT_EQ(group.formats().slots.at("v").name, "bf16");
  EXPECT_EQ(group.seed(), 3u);
  EXPECT_EQ(group.formats().min_quantized_size, 0);
  other.state("fp32");
  other.inherit(defaults);
  EXPECT_TRUE(other.formats().slots.empty()) << "a codec for all slots hides the defaults' slots";
}

TEST(Formats, OfARuleAreItsDefaultsUnlessUserOrDtypeRequireOthers) {
  const auto formats = [](torch::Dtype dtype, const AdamWBF16Options& options) {
    const torch::Tensor p = torch::zeros({3}, dtype).requires_grad_();
    AdamWBF16 optimizer({p}, options);
    const auto found = optimizer.formats_of(p);
    return found.weights + " " + found.slots.at("v").name;
  };
  EXPECT_EQ(formats(torch::kBFloat16, {}), "kahan bf16");
  EXPECT_EQ(formats(torch::kBFloat16, AdamWBF16Options().weights("native").state("fp32")),
            "native fp32");
  EXPECT_EQ(formats(torch::kFloat32, {}), "native bf16");
  EXPECT_EQ(formats(torch::kFloat64, {}), "native fp32");
}

TEST(Formats, AModelOfSeveralDtypesUsesAFormatForEachAndReportsIt) {
  Tensors parameters = {torch::ones({5000}, torch::kBFloat16), torch::ones({5000}),
                        torch::ones({5000}, torch::kFloat64), torch::ones({10}, torch::kBFloat16)};
  for (auto& p : parameters) p.set_requires_grad(true);
  AdamW optimizer(parameters, AdamWOptions(0.1).state("int8").weights("stochastic"));
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"int8", "stochastic"}, {"int8", "native"}, {"fp32", "native"}, {"fp32", "stochastic"}};
  train(optimizer, parameters, 1, 2);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterFormats formats = optimizer.formats_of(parameters[i]);
    EXPECT_EQ(formats.slots.at("m").name, expected[i].first) << i;
    EXPECT_EQ(formats.slots.at("v").name, expected[i].first) << i;
    EXPECT_EQ(formats.slots.count("vmax"), 0u);
    EXPECT_EQ(formats.weights, expected[i].second) << i;
  }
  const auto state_of = [&](std::size_t i) -> AdamWParamState& {
    return static_cast<AdamWParamState&>(
        *optimizer.state().at(parameters[i].unsafeGetTensorImpl()));
  };
  EXPECT_EQ(state_of(1).codes("m").scalar_type(), torch::kUInt8);
  EXPECT_EQ(state_of(2).exp_avg().scalar_type(), torch::kFloat64);
  EXPECT_HAS(argument_error([&] { optimizer.formats_of(torch::ones({3})); }), "not a parameter");
}

TEST(GenericOptions, TakeSeveralNumbersInBraces) {
  GenericOptions options(0.1);
  options.set("betas", {{0.8, 0.9}});
  EXPECT_EQ(options.given().at("betas"), Value(Value::Numbers{0.8, 0.9}));
  options.bind("adamw", jit::default_catalog());
  EXPECT_EQ(options.get("betas"), Value(Value::Numbers{0.8, 0.9}));
}

TEST(GenericOptions, WithoutARuleThrowOnAccess) {
  GenericOptions options(0.1);
  EXPECT_HAS(argument_error([&] { options.get("lr"); }), "make_options(rule, options)");
  EXPECT_HAS(argument_error([&] { options.is_set("lr"); }), "make_options(rule, options)");
  EXPECT_HAS(argument_error([&] { options.put("lr", 0.5); }), "make_options(rule, options)");
  EXPECT_HAS(argument_error([&] { options.set_lr(0.5); }), "make_options(rule, options)");
  options.bind("adamw");
  options.put("lr", 0.5);
  EXPECT_EQ(options.get_lr(), 0.5);
}

TEST(GenericOptions, WithARuleGiveAnOptimizerTheirCurrentValues) {
  GenericOptions options(0.1);
  options.bind("adamw");
  options.set_lr(0.5);
  options.put("eps", 1e-3);
  const auto made = make_options("adamw", options);
  EXPECT_EQ(made->get_lr(), 0.5);
  EXPECT_EQ(made->get("eps"), Value(1e-3));
  EXPECT_TRUE(made->is_set("eps"));
  EXPECT_FALSE(made->is_set("betas"));
}

TEST(GenericOptions, ThatRefuseAnOptionStayUsable) {
  GenericOptions options(0.1);
  options.bind("adamw");
  EXPECT_THROW(options.set("epz", 1.0), c10::Error);
  EXPECT_EQ(options.given().count("epz"), 0u);
  EXPECT_EQ(make_options("adamw", options)->get_lr(), 0.1);
}

TEST(Options, StayAsTheyAreIfAnArchiveIsDamaged) {
  torch::serialize::OutputArchive archive;
  archive.write("lr", c10::IValue(0.5));
  archive.write("eps", c10::IValue(1e-8));
  archive.write("jitstep_formats", c10::IValue(std::int64_t{1}));
  torch::serialize::InputArchive in = reread(archive);
  AdamWOptions options(0.1);
  options.put("lr", 0.1);
  EXPECT_THROW(options.serialize(in), c10::Error);
  EXPECT_EQ(options.get_lr(), 0.1);
  EXPECT_FALSE(options.is_set("eps"));
}

TEST(Options, ThatReplaceThoseOfAGroupAreConstructed) {
  const auto options = LionOptions(0.01).weight_decay(0.5).corrected_weight_decay(true);
  Tensors ours = make_parameters(), theirs = clones(ours);
  Lion replaced(ours, LionOptions(0.3)), made(theirs, options);
  replaced.param_groups()[0].set_options(std::make_unique<LionOptions>(options));
  for (int step = 1; step <= 3; ++step) {
    set_gradients(ours, step);
    set_gradients(theirs, step);
    for (Lion* const one : {&replaced, &made}) {
      one->param_groups()[0].options().set_lr(0.01 / step);
      one->step();
    }
  }
  expect_equal(ours, theirs);
}

TEST(Options, AReferenceToFormatsMayBeKeptAcrossSteps) {
  Tensors parameters = make_parameters(torch::kFloat32, {{8192}});
  AdamW optimizer(parameters);
  jit::Formats& formats =
      static_cast<Options&>(optimizer.param_groups()[0].options()).edit_formats();
  train(optimizer, parameters, 1, 1);
  const std::int64_t before = state_of(optimizer, parameters[0]).bytes();
  formats.state = jit::CodecChoice{"int8"};
  train(optimizer, parameters, 2, 2);
  EXPECT_LT(state_of(optimizer, parameters[0]).bytes(), before / 3);
}

}  // namespace
}  // namespace jitstep::tests
