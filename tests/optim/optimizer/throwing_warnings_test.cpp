// A program may make warnings errors. A call that warns then changes nothing.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

struct ThrowingWarnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override { throw std::runtime_error(warning.msg()); }

  c10::WarningUtils::WarningHandlerGuard guard{this};
};

TEST(ThrowingWarnings, LeaveGroupsAsTheyWere) {
  const auto p = leaf(torch::ones({4})), q = leaf(torch::ones({5}));
  Adagrad optimizer({p});
  {
    ThrowingWarnings warnings;
    const OptimizerParamGroup repeated({q, q});
    EXPECT_THROW(optimizer.add_param_group(repeated), std::runtime_error);
    EXPECT_THROW(optimizer.add_parameters({q, q}), std::runtime_error);
  }
  EXPECT_EQ(optimizer.param_groups().size(), 1U);
  EXPECT_EQ(optimizer.size(), 1U);
  EXPECT_EQ(optimizer.state().size(), 1U);
  optimizer.add_param_group(OptimizerParamGroup({q}));
  set_gradients({p, q}, 1);
  EXPECT_NO_THROW(optimizer.step());
}

TEST(ThrowingWarnings, LeaveTheStateOfALoadAsItWas) {
  Tensors parameters = make_parameters(torch::kFloat32, {{8192}}), twin = clones(parameters);
  AdamW saved(parameters, AdamWOptions(0.5).state("int8"));
  train(saved, parameters, 1, 2);
  std::stringstream stream;
  torch::save(saved, stream);
  AdamW optimizer(twin, AdamWOptions(0.25));
  train(optimizer, twin, 1, 1);
  {
    ThrowingWarnings warnings;
    EXPECT_THROW(torch::load(optimizer, stream), std::runtime_error);
  }
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.25);
  EXPECT_EQ(state_of(optimizer, twin[0]).step(), 1);
  Tensors others = make_parameters(torch::kFloat32, {{8192}});
  AdamW other(others, AdamWOptions(0.25));
  train(other, others, 1, 2);
  train(optimizer, twin, 2, 2);
  expect_equal(twin, others);
}

}  // namespace
}  // namespace jitstep::tests
