// A user's rule, loaded at run time: the README's example with every codec.
#include <torch/nn.h>

#include "jit/user_templates.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

// Mean loss of the last steps of a small regression. Guessing gives about 1.
double train(Optimizer& opt, torch::nn::Sequential& model) {
  const auto x = torch::randn({256, 64});
  const auto y = torch::tanh(x.matmul(torch::randn({64, 1}) / 8));
  double last = 0;
  for (int step = 0; step < 150; ++step) {
    opt.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), y) / y.var();
    loss.backward();
    opt.step();
    last = loss.item<double>();
  }
  return last;
}

TEST(UserRule, TrainsOnEveryCodec) {
  EXPECT_EQ(load_rule(example_file("signum.cuh")), "signum");
  for (const auto& codec : shipped(jit::Manifest::Kind::codec)) {
    torch::manual_seed(3);
    torch::nn::Sequential model(torch::nn::Linear(64, 128), torch::nn::Tanh(),
                                torch::nn::Linear(128, 1));
    Optimizer opt("signum", model->parameters(), GenericOptions(2e-3).state(codec));
    EXPECT_LT(train(opt, model), 0.1) << codec;
  }
}

TEST(UserRule, FollowsItsFormulaToTheBit) {
  load_rule(example_file("signum.cuh"));
  auto p = torch::randn({1000}).requires_grad_();
  auto expected = p.detach().clone(), m = torch::zeros({1000});
  Optimizer opt("signum", {p}, GenericOptions(0.1).set("weight_decay", 0.5));
  for (int step = 0; step < 3; ++step) {
    p.mutable_grad() = torch::randn({1000});
    m = (m.to(torch::kFloat64) * float(0.9) + (p.grad() * float(1 - 0.9)).to(torch::kFloat64))
            .to(torch::kFloat32);
    expected = expected * float(1 - 0.1 * 0.5) - torch::sign(m) * float(0.1);
    opt.step();
    EXPECT_TRUE(torch::equal(p.detach(), expected));
  }
}

// Additions to a rule of plain descent. `F` names the flags.
struct Descent {
  std::string name;
  std::string hyper = {}, flags = {}, slots = {}, rate = "1", state_update = {};
};

// Loads the rule. Its slot m holds the gradient of the last step.
std::string load_descent(const Descent& rule) {
  return load_rule(own_file(rule.name + ".cuh", R"(// Descent with additions.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::)" + rule.name + R"( {
struct Hyper {
  double lr = 1;  // >= 0
)" + rule.hyper + R"(};
struct Flags {
)" + rule.flags + R"(};
struct Slots {
  Signed m;
)" + rule.slots + R"(};
struct Scalars {
  real lr;
};
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) {
    Scalars s;
    s.lr = static_cast<real>(h.lr * ()" + rule.rate +
                                                    R"());
    return s;
  }
  KHD static void update_state(auto& e, const auto&) {
    e.m.next = e.g;
)" + rule.state_update + R"(  }
  KHD static void update_param(auto& e, const auto& c) { e.p -= c.lr * e.g; }
};
}  // namespace jitstep::rules::)" + rule.name + "\n"));
}

// The sum of gradients, of parameters with enough elements only.
TEST(UserRule, ASlotMayDependOnTheSizesOfAParameter) {
  load_descent({.name = "sized_tally",
                .hyper = "  double least = 41;  // >= 0\n",
                .flags = "  bool tallied = false;  // lifted: numel >= least && size(-1) > 1\n",
                .slots = "  Signed sum;  // if tallied\n",
                .state_update = "    if (F.tallied) e.sum.next = e.sum.prev + e.g;\n"});
  const std::vector<torch::Tensor> parameters = {
      torch::zeros({41}).requires_grad_(), torch::zeros({40}).requires_grad_(),
      torch::zeros({41, 1}).requires_grad_(), torch::zeros({}).requires_grad_()};
  const auto step = [&](Optimizer& opt) {
    for (const torch::Tensor& p : parameters) p.mutable_grad() = torch::ones_like(p);
    opt.step();
  };
  const auto sums = [&](Optimizer& opt) {
    std::string all;
    for (const torch::Tensor& p : parameters) {
      const torch::Tensor sum =
          static_cast<ParamState&>(*opt.state().at(p.unsafeGetTensorImpl())).value("sum");
      all += sum.defined() ? std::to_string(sum.sum().item<int>()) + " " : "- ";
    }
    return all;
  };
  Optimizer opt("sized_tally", parameters, GenericOptions(0.1));
  step(opt), step(opt);
  EXPECT_EQ(sums(opt), "82 - - - ");
  std::stringstream saved;
  torch::save(opt, saved);
  Optimizer loaded("sized_tally", parameters, GenericOptions(0.1));
  torch::load(loaded, saved);
  step(loaded);
  EXPECT_EQ(sums(loaded), "123 - - - ");
  static_cast<Options&>(loaded.param_groups()[0].options()).put("least", 40.0);
  step(loaded);
  EXPECT_EQ(sums(loaded), "164 40 - - ") << "a slot that an option adds";
}

TEST(UserRule, ASlotThatOptionsAddLaterStartsFromItsInitialValue) {
  // Sums up gradients, from `start` if the option `tally` is set.
  load_descent({.name = "tallying",
                .hyper = "  double start = 3;   // finite\n  double tally = 0;   // finite\n",
                .flags = "  bool tallied = false;  // lifted: tally != 0\n",
                .slots = "  Signed sum;  // if tallied; initial: start\n",
                .state_update = "    if (F.tallied) e.sum.next = e.sum.prev + e.g;\n"});
  for (const int before : {0, 2}) {
    auto p = torch::zeros({40}).requires_grad_();
    Optimizer opt("tallying", {p}, GenericOptions(0.1).set("tally", before == 0 ? 1.0 : 0.0));
    p.mutable_grad() = torch::ones({40});
    for (int step = 0; step < before; ++step) opt.step();
    static_cast<Options&>(opt.param_groups()[0].options()).put("tally", 1.0);
    opt.step();
    opt.step();
    auto& state = static_cast<ParamState&>(*opt.state().at(p.unsafeGetTensorImpl()));
    EXPECT_TRUE(torch::equal(state.value("sum"), torch::full({40}, 5.0))) << before;
    EXPECT_EQ(state.step(), before + 2);
  }
}

// ---- many options ----

// Steps by lr g, and by the same again for each flag that is set.
std::string rule_of_flags(int count) {
  Descent rule{.name = "flagged"};
  for (int i = 0; i < count; ++i) {
    const std::string flag = "f" + std::to_string(i);
    rule.flags += "  bool " + flag + " = false;\n";
    rule.rate += " + (F." + flag + " ? 1 : 0)";
  }
  return load_descent(rule);
}

TEST(UserRule, MayHaveMoreThan64IndependentOptions) {
  const std::string rule = rule_of_flags(64);
  const auto p = torch::zeros({5}).requires_grad_(), q = torch::zeros({5}).requires_grad_();
  GenericOptions given, defaults = GenericOptions(0.5);
  for (const int flag : {1, 31, 62, 63}) defaults.set("f" + std::to_string(flag), true);
  given.set("f63", false).set("lr", 0.5);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Tensors{p}, std::make_unique<GenericOptions>(given));
  groups.emplace_back(Tensors{q});
  Optimizer optimizer(rule, groups, defaults);
  const auto set = make_options(rule, given);
  ASSERT_GE(set->names().size(), 69u);  // a file declares at most 64 flags
  for (const std::string& name : set->names())
    EXPECT_EQ(set->is_set(name), name == "f63" || name == "lr") << name;
  for (const torch::Tensor& one : {p, q}) one.mutable_grad() = torch::ones({5});
  optimizer.step();
  EXPECT_EQ(p[4].item<float>(), -2) << "f63 belongs to its group, not to the optimizer";
  EXPECT_EQ(q[4].item<float>(), -2.5);
}

// ---- declarations about options and slots ----

class AnchoredRule : public ::testing::Test {
 protected:
  void SetUp() override { load_rule(own_file("anchored.cuh", jit::testing::kAnchoredText)); }

  static Tensors parameters(int count) {
    Tensors all;
    for (int i = 0; i < count; ++i) all.push_back(torch::ones({5000}).requires_grad_());
    return all;
  }
  static Options& options(Optimizer& opt, std::size_t group) {
    return static_cast<Options&>(opt.param_groups()[group].options());
  }
  static jit::Value initial_lr(Optimizer& opt, std::size_t group = 0) {
    return options(opt, group).get("initial_lr");
  }
};

TEST_F(AnchoredRule, StoresASlotInItsOwnCodecUnlessTheUserNamesTheSlot) {
  const Tensors p = parameters(3);
  Optimizer opt("anchored", std::vector<torch::Tensor>{p[0]}, GenericOptions(0.1).state("int8"));
  EXPECT_EQ(opt.formats_of(p[0]).slots.at("z").name, "fp32");
  EXPECT_EQ(opt.formats_of(p[0]).slots.at("m").name, "int8");
  const auto add = [&](const torch::Tensor& one, const GenericOptions& given) {
    opt.add_param_group({{one}, std::make_unique<GenericOptions>(given)});
    return opt.formats_of(one).slots.at("z").name;
  };
  EXPECT_EQ(add(p[1], GenericOptions().state("z", "bf16")), "bf16");
  EXPECT_EQ(add(p[2], GenericOptions().state("int4")), "fp32");
  const auto spec = Optimizer::from_spec(
      parameters(1), R"({"rule": "anchored", "state": {"z": "int8", "m": "int4"}})");
  EXPECT_EQ(spec->formats_of(spec->param_groups()[0].params()[0]).slots.at("z").name, "int8");
}

TEST_F(AnchoredRule, UsesEachGroupsRateAtConstruction) {
  const Tensors p = parameters(3);
  Optimizer opt("anchored", std::vector<torch::Tensor>{p[0]}, GenericOptions(0.25));
  EXPECT_EQ(initial_lr(opt), jit::Value(0.25));
  opt.add_param_group({{p[1]}, std::make_unique<GenericOptions>(0.125)});
  opt.add_param_group(
      {{p[2]}, std::make_unique<GenericOptions>(GenericOptions().set("initial_lr", 1))});
  EXPECT_EQ(initial_lr(opt, 1), jit::Value(0.125));
  EXPECT_EQ(initial_lr(opt, 2), jit::Value(1.0));
  const auto spec =
      Optimizer::from_spec(parameters(1), R"({"rule": "anchored", "options": {"lr": 0.75}})");
  EXPECT_EQ(initial_lr(*spec), jit::Value(0.75));
}

TEST_F(AnchoredRule, KeepsThatRateThroughSchedulesAndArchives) {
  const Tensors p = parameters(1);
  Optimizer opt("anchored", p, GenericOptions(0.5));
  options(opt, 0).set_lr(0.125);
  p[0].mutable_grad() = torch::ones({5000});
  opt.step();
  EXPECT_EQ(initial_lr(opt), jit::Value(0.5));
  EXPECT_EQ(p[0][0].item<float>(), 0.75f) << "1 - 0.125 / 0.5";
  std::stringstream file;
  torch::save(opt, file);
  const Tensors q = clones(p);
  Optimizer other("anchored", q, GenericOptions(0.25));
  torch::load(other, file);
  EXPECT_EQ(initial_lr(other), jit::Value(0.5));
}

TEST(UserRule, HasTheFormulasOfTheReadme) {
  const std::string readme = text_of_file(JITSTEP_SOURCE_DIR "/README.md");
  const auto start = readme.find("struct Rule {"), end = readme.find("```", start);
  ASSERT_LT(start, end);
  EXPECT_HAS(text_of_file(JITSTEP_SOURCE_DIR "/examples/signum.cuh"),
             readme.substr(start, end - start));
}

TEST(UserRule, OfTheGuideIsTheOneInTheExamples) {
  const auto file = [](const char* name) {
    return text_of_file(std::string(JITSTEP_SOURCE_DIR "/") + name);
  };
  const std::string chapter = file("docs/extending/optimizer.md");
  const std::string fence = "```cpp\n";
  EXPECT_HAS(chapter, fence + file("examples/yogi.cuh") + "```\n");
  EXPECT_HAS(chapter, fence + file("examples/yogi.cpp") + "```\n");
  EXPECT_HAS(chapter, file("bench/results/state_formats_yogi.md"));
}

TEST(UserRule, WithAMistakeNamesTheLineAndShowsTheSource) {
  std::string text = text_of_file(JITSTEP_SOURCE_DIR "/examples/signum.cuh");
  while (text.find("signum") != std::string::npos) text.replace(text.find("signum"), 6, "broken");
  text.replace(text.find("sign(e.m.next)"), 14, "sing(e.m.next)");
  const std::string path = own_file("broken.cuh", text);
  load_rule(path);
  auto p = torch::ones({4}).requires_grad_();
  p.mutable_grad() = torch::ones({4});
  Optimizer opt("broken", {p}, GenericOptions(0.1));
  try {
    opt.step();
    FAIL() << "a rule that does not compile was run";
  } catch (const jit::CompileError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with(path + ":32: ")) << what;
    EXPECT_HAS(what, "sing");
  }
  EXPECT_TRUE(torch::equal(p.detach(), torch::ones({4})));
}

TEST(UserRule, WhoseRateIsNotSetHasNoRateToReadOrToReplace) {
  const std::string rule = load_rule(own_file("unset_rate.cuh", R"(// A probe.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::unset_rate {
struct Hyper {
  Nullable lr = null;  // >= 0
};
struct Rule {
  KHD static void update_param(auto& e, const auto& h) {
    e.p = e.p - (h.lr.has_value() ? h.lr.value : 1) * e.g;
  }
};
}
)"));
  Optimizer optimizer(rule, {leaf(torch::ones({3}))});
  auto& options = optimizer.param_groups()[0].options();
  EXPECT_HAS(argument_error([&] { options.get_lr(); }), rule);
  EXPECT_HAS(argument_error([&] { optimizer.set_lr(torch::ones({})); }), rule);
  options.set_lr(0.5);
  EXPECT_EQ(options.get_lr(), 0.5);
}

}  // namespace
}  // namespace jitstep::tests
