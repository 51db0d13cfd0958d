// train() and eval() of rules whose parameters are another point in training than in evaluation.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {{70, 60}, {3}, {}};

Optimizer averaged(const Tensors& parameters, const std::string& state = "fp32") {
  static const std::string rule = load_rule(own_file(
      "averaged_iterate.cuh",
      text_of_file(JITSTEP_SOURCE_DIR "/tests/templates/extensions/averaged_iterate.cuh")));
  return Optimizer(rule, parameters, GenericOptions(0.1).state(state).seed(3));
}

void expect_unlike(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_FALSE(torch::equal(a[i], b[i])) << i;
}

TEST(OptimizerModes, StartInTrainingAndSwitchThereAndBack) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer = averaged(parameters);
  EXPECT_TRUE(optimizer.is_training());
  train(optimizer, parameters, 1, 3);
  const Tensors y = clones(parameters);
  optimizer.eval();
  EXPECT_FALSE(optimizer.is_training());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const auto z =
        static_cast<ParamState&>(*optimizer.state().at(parameters[i].unsafeGetTensorImpl()))
            .value("z");
    EXPECT_TRUE(torch::allclose(parameters[i], y[i] + (1 - 1 / 0.9) * (z - y[i]))) << i;
    EXPECT_FALSE(torch::allclose(parameters[i], y[i])) << i;
  }
  optimizer.train();
  EXPECT_TRUE(optimizer.is_training());
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_TRUE(torch::allclose(parameters[i], y[i], 1e-5, 1e-6)) << i;
}

TEST(OptimizerModes, SwitchedTwiceAreAsOnce) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer = averaged(parameters);
  optimizer.train();
  train(optimizer, parameters, 1, 2);
  const Tensors y = clones(parameters);
  optimizer.train();
  expect_equal(parameters, y);
  optimizer.train(false);
  EXPECT_FALSE(optimizer.is_training());
  const Tensors x = clones(parameters);
  optimizer.eval();
  expect_equal(parameters, x);
}

// Steps round stochastically. A mode switch must not, because each switch would add new random bits.
TEST(OptimizerModes, DoNotDriftHoweverOftenTheySwitch) {
  const Tensors parameters = make_parameters(torch::kBFloat16, kShapes);
  ScheduleFreeAdamW optimizer(parameters, ScheduleFreeAdamWOptions(1e-2).weights("stochastic"));
  train(optimizer, parameters, 1, 3);
  const Tensors y = clones(parameters);
  for (int i = 0; i < 100; ++i) optimizer.eval(), optimizer.train();
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_TRUE(torch::allclose(parameters[i], y[i], 0x1p-6, 1e-3)) << i;
}

TEST(OptimizerModes, DoNotChangeParametersThatWereNeverStepped) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes), before = clones(parameters);
  Optimizer optimizer = averaged(parameters);
  optimizer.eval();
  EXPECT_TRUE(optimizer.state().empty());
  optimizer.train();
  for (const int step : {1, 2}) {
    set_gradients(parameters, step);
    parameters[0].mutable_grad() = torch::Tensor();
    optimizer.step();
  }
  const Tensors y = clones(parameters);
  optimizer.eval();
  EXPECT_TRUE(torch::equal(parameters[0], before[0]));
  EXPECT_EQ(optimizer.state().count(parameters[0].unsafeGetTensorImpl()), 0u);
  expect_unlike({parameters[1], parameters[2]}, {y[1], y[2]});
  optimizer.train();
  train(optimizer, parameters, 3, 3);
}

TEST(OptimizerModes, DoNotNeedGradientsAndCompileNothingMore) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer = averaged(parameters, "int8");
  train(optimizer, parameters, 1, 2);
  const auto compiled = [] {
    const jit::Statistics statistics = kernel_statistics();
    return statistics.compiled + statistics.from_disk;
  };
  const auto before = compiled();
  optimizer.zero_grad();
  const Tensors y = clones(parameters);
  const auto version = parameters[0]._version();
  optimizer.eval();
  EXPECT_EQ(parameters[0]._version(), version + 1) << "autograd must see the change";
  expect_unlike(parameters, y);
  EXPECT_EQ(compiled(), before);
}

TEST(OptimizerModes, RejectAStepInEvaluationBeforeAnythingChanges) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer = averaged(parameters);
  train(optimizer, parameters, 1, 2);
  optimizer.eval();
  const Tensors x = clones(parameters);
  set_gradients(parameters, 3);
  bool called = false;
  const auto closure = [&] {
    called = true;
    return torch::tensor(1.0);
  };
  for (const auto& step : {std::function<void()>([&] { optimizer.step(); }),
                           std::function<void()>([&] { optimizer.step(closure); })})
    EXPECT_HAS(argument_error(step), "step() of averaged_iterate in evaluation mode");
  EXPECT_FALSE(called);
  expect_equal(parameters, x);
  optimizer.train();
  const auto turning = [&] {
    optimizer.eval();
    return torch::tensor(1.0);
  };
  EXPECT_HAS(argument_error([&] { optimizer.step(turning); }), "Call train() first");
  EXPECT_EQ(
      static_cast<ParamState&>(*optimizer.state().at(parameters[0].unsafeGetTensorImpl())).step(),
      2);
}

TEST(OptimizerModes, OfOtherRulesDoNothing) {
  const Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  const Tensors before = clones(parameters);
  optimizer.eval();
  EXPECT_TRUE(optimizer.is_training());
  expect_equal(parameters, before);
  train(optimizer, parameters, 2, 2);
}

TEST(OptimizerModes, AreLoadedWithTheModelsParameters) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  for (const bool training : {false, true}) {
    Optimizer saved = averaged(parameters, "int8");
    train(saved, parameters, 1, 3);
    saved.train(training);
    Tensors loaded = clones(parameters);
    Optimizer other = averaged(loaded, "int8");
    if (training) other.eval();  // the loaded mode replaces it
    copy_through_archive(saved, other);
    EXPECT_EQ(other.is_training(), training);
    saved.train(), other.train();
    expect_equal(loaded, parameters);
    train(saved, parameters, 4, 5);
    train(other, loaded, 4, 5);
    expect_equal(loaded, parameters);
  }
}

TEST(OptimizerModes, OfADamagedArchiveAreRejected) {
  const Tensors parameters = make_parameters();
  Optimizer optimizer = averaged(parameters);
  torch::serialize::OutputArchive out, ours(out.compilation_unit());
  ours.write("schema", c10::IValue(std::int64_t{1}));
  ours.write("rule", c10::IValue("averaged_iterate"));
  ours.write("mode", c10::IValue("both"));
  out.write("pytorch_version", c10::IValue("1.5.0"));
  out.write("jitstep", ours);
  torch::serialize::InputArchive in = reread(out);
  EXPECT_HAS(argument_error([&] { optimizer.load(in); }), "\"mode\" is \"both\"");
}

// The weights of the average depend on lr, and all groups share them.
TEST(OptimizerModes, OfScheduleFreeGroupsWithDifferentLrsAreRejectedBeforeAnythingChanges) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{3}, {4}}),
                before = clones(parameters);
  ScheduleFreeAdamW optimizer({{{parameters[0]}, std::make_unique<ScheduleFreeAdamWOptions>(0.1)},
                               {{parameters[1]}, std::make_unique<ScheduleFreeAdamWOptions>(0.2)}});
  for (const torch::Tensor& p : parameters) p.mutable_grad() = torch::ones_like(p);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "different lr");
  expect_equal(parameters, before);
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(OptimizerModes, ChangeNothingIfASwitchFails) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes), twin = clones(parameters);
  Optimizer optimizer = averaged(parameters, "int8"), other = averaged(twin, "int8");
  train(optimizer, parameters, 1, 2);
  train(other, twin, 1, 2);
  auto& options = static_cast<Options&>(optimizer.param_groups()[0].options());
  options.edit_formats().state = jit::CodecChoice{"int4"};  // the next step converts the state
  options.put("beta", 2.0);
  EXPECT_HAS(argument_error([&] { optimizer.eval(); }), "beta is 2");
  EXPECT_TRUE(optimizer.is_training());
  options.put("beta", 0.9);
  options.edit_formats().state = jit::CodecChoice{"int8"};
  for (Optimizer* one : {&optimizer, &other}) one->eval(), one->train();
  train(optimizer, parameters, 3, 4);
  train(other, twin, 3, 4);
  expect_equal(parameters, twin);
}

TEST(OptimizerModes, FollowAParameterWhoseStorageMoved) {
  const Tensors parameters = make_parameters(torch::kFloat32, kShapes);
  Optimizer optimizer = averaged(parameters);
  train(optimizer, parameters, 1, 2);
  parameters[0].set_data(parameters[0].detach().clone());
  const Tensors y = clones(parameters);
  optimizer.eval();
  expect_unlike(parameters, y);
}

}  // namespace
}  // namespace jitstep::tests
