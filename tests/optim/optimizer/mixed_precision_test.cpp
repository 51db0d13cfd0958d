// Gradients whose dtype differs from their parameter's, torch.amp's tensors, and skipped steps.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

constexpr torch::Dtype kDtypes[] = {torch::kFloat32, torch::kFloat64, torch::kBFloat16,
                                    torch::kFloat16};

torch::Tensor number(double x) { return torch::full({}, x, torch::kFloat32); }

std::int64_t steps_of(Optimizer& optimizer, const torch::Tensor& p) {
  return static_cast<ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl())).step();
}

std::int64_t compilations() { return kernel_statistics().compiled + kernel_statistics().from_disk; }

// A step that found_inf skips. Its gradients would ruin all parameters.
void skip_step(Optimizer& optimizer, const Tensors& parameters) {
  for (const auto& p : parameters) p.mutable_grad() = torch::full_like(p.detach(), INFINITY);
  optimizer.set_found_inf(number(1));
  optimizer.step();
  optimizer.set_found_inf(number(0));
}

// ---- dtypes of gradients ----

TEST(GradientDtypes, AreConvertedToTheArithmeticTypeWhenRead) {
  for (const auto own : kDtypes)
    for (const auto other : kDtypes) {
      const auto real = own == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
      Tensors a = make_parameters(own, {{40, 30}}), b = clones(a);
      Adam one(a), two(b);
      for (int step = 0; step < 2; ++step) {
        const auto g = torch::randn({40, 30}, torch::kFloat64).to(other);
        a[0].mutable_grad() = g;
        b[0].mutable_grad() = g.to(real);
        one.step();
        two.step();
      }
      EXPECT_TRUE(torch::equal(a[0], b[0])) << own << " " << other;
    }
}

TEST(GradientDtypes, MayChangeFromStepToStep) {
  Tensors a = make_parameters(torch::kFloat32, {{80, 60}, {7}}), b = clones(a);
  const auto options = AdamWOptions(0.1).state("int8");
  AdamW one(a, options), two(b, options);
  for (int step = 1; step <= 4; ++step) {
    set_gradients(b, step);
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto narrow = b[i].grad().to(torch::kBFloat16);
      a[i].mutable_grad() = step % 2 == 0 ? narrow : narrow.to(torch::kFloat32);
      b[i].mutable_grad() = narrow.to(torch::kFloat32);
    }
    one.step();
    two.step();
  }
  expect_equal(a, b);
  EXPECT_EQ(steps_of(one, a[0]), 4);
}

TEST(GradientDtypes, MayMixInOneOptimizerUnderOneNorm) {
  Tensors a = make_parameters(torch::kFloat32, {{50}, {3, 4}, {9}}), b = clones(a);
  AdamW one(a, AdamWOptions(0.1).max_grad_norm(0.5)), two(b, AdamWOptions(0.1).max_grad_norm(0.5));
  for (int step = 1; step <= 2; ++step) {
    set_gradients(a, step);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i].mutable_grad() = a[i].grad().to(kDtypes[i == 0 ? 2 : i == 1 ? 3 : 0]);
      b[i].mutable_grad() = a[i].grad().to(torch::kFloat32);
    }
    one.step();
    two.step();
  }
  expect_equal(a, b);
}

TEST(GradientDtypes, AreUsedByCompileIfGradientsExist) {
  Tensors parameters = make_parameters(torch::kFloat32, {{11}});
  Adagrad optimizer(parameters);
  parameters[0].mutable_grad() = torch::ones({11}, torch::kBFloat16);
  optimizer.compile();
  const auto before = compilations();
  optimizer.step();
  EXPECT_EQ(compilations(), before);
}

// ---- found_inf ----

// Optimizers whose state would reveal a counted step: random bits, sums, auxiliary and shared state.
std::vector<std::pair<std::string, GenericOptions>> sensitive_optimizers() {
  return {{"adamw", GenericOptions(0.1).state("int8").weights("stochastic")},
          {"adamw", GenericOptions(0.1).set("max_grad_norm", 0.5)},
          {"prodigy", GenericOptions(1)},
          {"novograd", GenericOptions(0.1)},
          {"schedulefree_adamw", GenericOptions(0.1)},
          {"muon", GenericOptions(0.1)}};
}

Tensors sensitive_parameters(const std::string& rule) {
  if (rule == "muon") return make_parameters(torch::kFloat32, {{20, 30}});
  return make_parameters(rule == "adamw" ? torch::kBFloat16 : torch::kFloat32,
                         {{80, 60}, {7}, {0}});
}

// Compares training with skipped steps to training without them. After each step `look` runs for both.
void expect_unharmed(const std::function<void(Optimizer&, const Tensors&)>& look) {
  for (const auto& [rule, options] : sensitive_optimizers()) {
    Tensors a = sensitive_parameters(rule), b = clones(a);
    Optimizer one(rule, a, options), two(rule, b, options);
    one.set_found_inf(number(0));
    for (int step = 1; step <= 4; ++step) {
      if (step % 2 == 1) {
        skip_step(one, a);
        look(one, a);
        look(two, b);
      }
      train(one, a, step, step);
      train(two, b, step, step);
      look(one, a);
      look(two, b);
    }
    one.eval();
    two.eval();
    expect_equal(a, b);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(steps_of(one, a[i]), 4) << rule << i;
    if (rule == "prodigy") {
      EXPECT_EQ(one.aux_state("d"), two.aux_state("d"));
    }
    if (rule == "novograd") {
      EXPECT_TRUE(torch::equal(
          static_cast<ParamState&>(*one.state().at(a[0].unsafeGetTensorImpl())).aux_state("v"),
          static_cast<ParamState&>(*two.state().at(b[0].unsafeGetTensorImpl())).aux_state("v")));
    }
  }
}

TEST(FoundInf, SkipsTheStepWithoutATrace) {
  expect_unharmed([](Optimizer&, const Tensors&) {});
}

TEST(FoundInf, AllowsReadingStateAtAnyTime) {
  expect_unharmed([&](Optimizer& optimizer, const Tensors& parameters) {
    if (!optimizer.state().empty()) steps_of(optimizer, parameters[0]);
    if (optimizer.rule() == "prodigy") optimizer.aux_state("d");
  });
}

TEST(FoundInf, MayBeFollowedByAModeSwitch) {
  expect_unharmed([&](Optimizer& optimizer, const Tensors&) {
    optimizer.eval();
    optimizer.train();
  });
}

TEST(FoundInf, MayComeAndGo) {
  expect_unharmed([](Optimizer& optimizer, const Tensors&) { optimizer.set_found_inf({}); });
}

TEST(FoundInf, IsNotStoredInAnArchive) {
  for (const auto& [rule, options] : sensitive_optimizers()) {
    Tensors a = sensitive_parameters(rule), b = clones(a);
    Optimizer one(rule, a, options), two(rule, b, options), loaded(rule, a, options);
    skip_step(one, a);
    train(one, a, 1, 2);
    skip_step(one, a);
    copy_through_archive(one, loaded);
    train(loaded, a, 3, 4);
    train(two, b, 1, 4);
    expect_equal(a, b);
    EXPECT_EQ(steps_of(loaded, a[0]), 4) << rule;
  }
}

TEST(FoundInf, KeepsTheStepNumberOfStateWhoseFormatChanges) {
  Tensors a = make_parameters(torch::kFloat32, {{80, 60}}), b = clones(a);
  AdamW one(a, AdamWOptions(0.1)), two(b, AdamWOptions(0.1));
  train(one, a, 1, 2);
  train(two, b, 1, 2);
  skip_step(one, a);
  for (AdamW* optimizer : {&one, &two})
    static_cast<AdamWOptions&>(optimizer->param_groups()[0].options()).state("int8").amsgrad(true);
  train(one, a, 3, 4);
  train(two, b, 3, 4);
  expect_equal(a, b);
}

TEST(FoundInf, DoesNotAffectAnEarlierCopyOfTheState) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  optimizer.set_found_inf(number(0));
  train(optimizer, parameters, 1, 3);
  const auto& held = optimizer.state().at(parameters[0].unsafeGetTensorImpl());
  const AdamWParamState copy = static_cast<AdamWParamState&>(*held);
  skip_step(optimizer, parameters);
  EXPECT_EQ(copy.step(), 3);
  EXPECT_EQ(steps_of(optimizer, parameters[0]), 3);
}

TEST(FoundInf, SkipsForAnyNonzeroValue) {
  for (const double found : {1.0, 0.5, 2.0, double(NAN)}) {
    Tensors parameters = make_parameters();
    const Tensors before = clones(parameters);
    AdamW optimizer(parameters);
    set_gradients(parameters, 1);
    optimizer.set_found_inf(torch::full({1}, found, torch::kFloat32));
    optimizer.step();
    expect_equal(parameters, before);
    EXPECT_EQ(steps_of(optimizer, parameters[0]), 0);
  }
}

// ---- grad_scale ----

TEST(GradScale, DividesLikeTheOptionAndTogetherWithIt) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    Tensors a = make_parameters(dtype), b = clones(a), c = clones(a);
    AdamW one(a, AdamWOptions(0.1).grad_scale(48)), two(b, AdamWOptions(0.1)),
        three(c, AdamWOptions(0.1).grad_scale(3));
    two.set_grad_scale(number(48));
    three.set_grad_scale(number(16));
    for (AdamW* optimizer : {&one, &two, &three})
      train(*optimizer, optimizer->param_groups()[0].params(), 1, 3);
    expect_equal(a, b);
    expect_equal(a, c);
  }
}

TEST(GradScale, DoesNotChangeTheGradients) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  optimizer.set_grad_scale(number(8));
  set_gradients(parameters, 1);
  const auto before = parameters[0].grad().clone();
  optimizer.step();
  EXPECT_TRUE(torch::equal(parameters[0].grad(), before));
}

TEST(GradScale, IsReadInEveryStepAndMayBeRemoved) {
  Tensors a = make_parameters(), b = clones(a);
  AdamW one(a, AdamWOptions(0.1)), two(b, AdamWOptions(0.1));
  const auto scale = number(8);
  one.set_grad_scale(scale);
  for (int step = 1; step <= 3; ++step) {
    const double factor = step == 1 ? 8 : step == 2 ? 4 : 1;
    scale.fill_(factor);
    if (step == 3) one.set_grad_scale({});
    set_gradients(a, step);
    set_gradients(b, step);
    for (const auto& p : a) p.mutable_grad().mul_(factor);
    one.step();
    two.step();
  }
  expect_equal(a, b);
}

TEST(AmpTensors, AreRejectedByNameIfInvalid) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  const auto error_for = [&](const torch::Tensor& tensor) {
    return argument_error([&] { optimizer.set_found_inf(tensor); });
  };
  EXPECT_HAS(error_for(torch::zeros({2})), "found_inf is float32 [2]");
  EXPECT_HAS(error_for(torch::zeros({}, torch::kFloat64)), "found_inf is float64 []");
  EXPECT_HAS(argument_error([&] { optimizer.set_grad_scale(torch::ones({}, torch::kInt64)); }),
             "grad_scale is long");
  optimizer.set_grad_scale(torch::ones({}, torch::kMeta));
  set_gradients(parameters, 1);
  const Tensors before = clones(parameters);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }),
             "grad_scale is on meta, but parameter 0 of group 0");
  expect_equal(parameters, before);
}

}  // namespace
}  // namespace jitstep::tests
