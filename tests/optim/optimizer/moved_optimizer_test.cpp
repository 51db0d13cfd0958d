// Optimizers that are moved, and what is left of them.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

TEST(MovedOptimizer, CanBeAssignedAndSwapped) {
  Tensors parameters = make_parameters(), others = clones(parameters), old = make_parameters();
  AdamW first(old, AdamWOptions(0.5)), other(others), third(old);
  StepLR scheduler(first, 2, 0.5);
  train(first, old, 1, 1);
  first = AdamW(parameters);
  train(first, parameters, 1, 2);
  std::swap(first, third);
  EXPECT_TRUE(torch::equal(first.parameters()[0], old[0]));
  train(third, parameters, 3, 3);
  first = std::move(third);
  train(first, parameters, 4, 4);
  train(other, others, 1, 4);
  expect_equal(parameters, others);
  for (int i = 0; i < 3; ++i) scheduler.step();
  EXPECT_EQ(static_cast<AdamWOptions&>(first.param_groups()[0].options()).lr(), 5e-4);
  std::swap(third, first), std::swap(third, first);  // the third was moved from
  third = AdamW(old);
  train(third, old, 1, 1);
  AdamW& same = first;
  first = std::move(same);
  EXPECT_EQ(first.size(), parameters.size());
}

TEST(MovedOptimizer, ContinuesWhereItWas) {
  Tensors parameters = make_parameters(), others = clones(parameters);
  AdamW first(parameters), other(others);
  train(first, parameters, 1, 2);
  AdamW second = std::move(first);
  train(second, parameters, 3, 4);
  train(other, others, 1, 4);
  expect_equal(parameters, others);
}

// As torch's: it has no parameters.
TEST(MovedOptimizer, LeavesOneThatStepsNothing) {
  Tensors parameters = make_parameters();
  AdamW first(parameters), second = std::move(first), third({leaf(torch::ones({2}))});
  third = std::move(second);
  train(third, parameters, 1, 1);
  for (AdamW* const old : {&first, &second}) {
    old->zero_grad();
    EXPECT_NO_THROW(old->step());
    EXPECT_TRUE(old->param_groups().empty());
  }
  EXPECT_TRUE(parameters[0].grad().defined());
}

void expect_usable(Optimizer& old) {
  EXPECT_EQ(old.rule(), "adamw");
  old.eval();
  old.train();
  old.compile();
  old.set_lr(torch::ones({}));
  EXPECT_TRUE(old.memory_report().parameters.empty());
  EXPECT_TRUE(old.kernels().empty());
  EXPECT_TRUE(old.fp32_weights().empty());
  torch::serialize::OutputArchive archive;
  old.save(archive);
  old.set_lr(torch::Tensor());
}

TEST(MovedOptimizer, LeavesOneWithItsDefaultsThatMayGetGroups) {
  Tensors parameters = make_parameters(), others = clones(parameters);
  AdamW first(make_parameters(), AdamWOptions(0.5)), second = std::move(first), third(others);
  third = std::move(second);
  AdamW twin(others, AdamWOptions(0.5));
  for (AdamW* const old : {&first, &second}) {
    expect_usable(*old);
    old->add_param_group(OptimizerParamGroup(parameters));
    train(*old, parameters, 1, 1);
    train(twin, others, 1, 1);
    expect_equal(parameters, others);
    parameters = make_parameters(), others = clones(parameters);
    twin = AdamW(others, AdamWOptions(0.5));
  }
}

}  // namespace
}  // namespace jitstep::tests
