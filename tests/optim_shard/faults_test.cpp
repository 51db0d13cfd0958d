// Ranks that differ, or that fail. The others end with an error that names the rank, and nothing has changed.
#include <cmath>

#include "optim_shard/ranks.h"

namespace jitstep::tests {
namespace {

using Work = std::function<void(int rank, AdamW& optimizer, const Tensors& parameters)>;

// Three ranks with these options and models, which take one good step before `work`. Returns their errors.
std::vector<std::string> errors_of(const Work& work,
                                   const std::function<AdamWOptions(int rank)>& options = {},
                                   const std::function<Tensors(int rank)>& parameters = {}) {
  return on_ranks(
      3,
      [&](int rank, const Group& group) {
        const Tensors own = parameters ? parameters(rank) : model();
        AdamW optimizer(own, options ? options(rank) : AdamWOptions(0.01).max_grad_norm(0.5));
        optimizer.shard(group);
        set_gradients(own, 1);
        work(rank, optimizer, own);
      },
      std::chrono::seconds(20));
}

void step(int, AdamW& optimizer, const Tensors&) { optimizer.step(); }

// True if every rank's error names rank 1 and contains `what`.
testing::AssertionResult all_name_rank_1(const std::vector<std::string>& errors,
                                         const std::string& what) {
  for (const std::string& error : errors)
    if (error.find("rank 1") == error.npos || error.find(what) == error.npos)
      return testing::AssertionFailure() << "not of rank 1 and " << what << ": " << error;
  return testing::AssertionSuccess();
}

TEST(Faults, AnotherOptionOnARank) {
  const auto options = [](int rank) { return AdamWOptions(rank == 1 ? 0.02 : 0.01); };
  EXPECT_TRUE(all_name_rank_1(errors_of(step, options), "parameter 0"));
}

TEST(Faults, AnotherSeedOnARank) {
  const auto options = [](int rank) { return AdamWOptions(0.01).seed(rank == 1 ? 2 : 1); };
  EXPECT_TRUE(all_name_rank_1(errors_of(step, options), "parameter 0"));
}

TEST(Faults, AnotherFormatOnARank) {
  const auto options = [](int rank) {
    return AdamWOptions(0.01).state(rank == 1 ? "int8" : "fp32");
  };
  EXPECT_TRUE(all_name_rank_1(errors_of(step, options), "parameter 0"));
}

// Ranks with another number of trials would wait for each other.
TEST(Faults, TuningOnARank) {
  const auto options = [](int rank) { return AdamWOptions(0.01).tune(rank == 1); };
  EXPECT_TRUE(all_name_rank_1(errors_of(step, options), "parameter 0"));
}

TEST(Faults, AnotherShapeOnARank) {
  const auto parameters = [](int rank) {
    Tensors all = model();
    if (rank == 1) all[3] = torch::zeros({4094}).set_requires_grad(true);
    return all;
  };
  EXPECT_TRUE(all_name_rank_1(errors_of(step, {}, parameters), "parameter 3"));
}

TEST(Faults, AnotherNumberOfParametersOnARank) {
  const auto parameters = [](int rank) {
    Tensors all = model();
    if (rank == 1) all.pop_back();
    return all;
  };
  EXPECT_TRUE(all_name_rank_1(errors_of(step, {}, parameters), "7 parameters"));
}

TEST(Faults, AGradientThatOneRankLacks) {
  const auto errors = errors_of([](int rank, AdamW& optimizer, const Tensors& parameters) {
    const torch::Tensor gradient = parameters[4].grad();
    if (rank == 1) parameters[4].mutable_grad().reset();
    const torch::Tensor before = parameters[0].detach().clone();
    EXPECT_THROW(optimizer.step(), c10::Error);
    EXPECT_TRUE(torch::equal(parameters[0], before)) << "nothing has changed";
    parameters[4].mutable_grad() = gradient;
    optimizer.step();
    EXPECT_FALSE(torch::equal(parameters[0], before));
    if (rank == 1) parameters[4].mutable_grad().reset();
    optimizer.step();
  });
  EXPECT_TRUE(all_name_rank_1(errors, "parameter 4"));
}

TEST(Faults, AnErrorOfOneRankBeforeTheExchange) {
  const auto errors = errors_of([](int rank, AdamW& optimizer, const Tensors&) {
    const auto closure = [&]() -> torch::Tensor {
      if (rank == 1) throw std::runtime_error("the loss of rank 1 is not finite");
      return torch::zeros({});
    };
    optimizer.step(closure);
  });
  EXPECT_TRUE(all_name_rank_1(errors, "rank 1"));
  EXPECT_EQ(errors[1], "the loss of rank 1 is not finite") << "the rank has its own error";
}

TEST(Faults, AnotherCallOnARank) {
  const auto errors = errors_of([](int rank, AdamW& optimizer, const Tensors&) {
    if (rank == 1)
      optimizer.fp32_weights();
    else
      optimizer.step();
  });
  EXPECT_TRUE(all_name_rank_1(errors, "fp32_weights()"));
}

TEST(Faults, ARankThatHasEndedBeforeTheStep) {
  const auto errors = errors_of([](int rank, AdamW& optimizer, const Tensors& parameters) {
    optimizer.step();
    if (rank == 1) return;
    const torch::Tensor before = parameters[0].detach().clone();
    EXPECT_THROW(optimizer.step(), c10::Error);
    EXPECT_TRUE(torch::equal(parameters[0], before));
  });
  EXPECT_EQ(errors, no_errors(3));
}

TEST(Faults, MisuseOfAnOptimizer) {
  const auto errors = errors_of([](int, AdamW& optimizer, const Tensors& parameters) {
    EXPECT_THROW(optimizer.add_parameters({torch::zeros({3})}), c10::Error);
    EXPECT_THROW(optimizer.step_in_backward(), c10::Error);
    EXPECT_THROW(optimizer.offload(), c10::Error);
    EXPECT_FALSE(optimizer.is_offloaded());
    optimizer.capturable();
    EXPECT_THROW(optimizer.step(), c10::Error);
    optimizer.capturable(false);
    optimizer.step();
    EXPECT_THROW(optimizer.part_of(torch::zeros({3})), c10::Error);
    EXPECT_EQ(optimizer.part_of(parameters[6]), (std::pair<std::int64_t, std::int64_t>(0, 0)));
  });
  EXPECT_EQ(errors, no_errors(3));
}

// Calls that do not step must not read the parameter either.
TEST(Faults, AParameterThatWasRemoved) {
  const auto errors = errors_of([](int, AdamW& optimizer, const Tensors& parameters) {
    optimizer.step();
    const std::vector<torch::Tensor> all = optimizer.param_groups()[0].params();
    optimizer.param_groups()[0].params().pop_back();
    EXPECT_THROW(optimizer.fp32_weights(), c10::Error);
    torch::serialize::OutputArchive archive;
    EXPECT_THROW(optimizer.save(archive), c10::Error);
    EXPECT_THROW(optimizer.step(), c10::Error);
    EXPECT_THROW(optimizer.part_of(parameters[0]), c10::Error);
    optimizer.param_groups()[0].params() = all;
    optimizer.step();
  });
  EXPECT_EQ(errors, no_errors(3));
}

TEST(Faults, AParameterWithAnotherMemoryOrder) {
  const auto errors = errors_of([](int, AdamW& optimizer, const Tensors& parameters) {
    optimizer.step();
    torch::Tensor p = parameters[1];  // every rank knows that it is cut
    const torch::Tensor before = p.detach().clone();
    p.set_data(before.t().contiguous().t());
    EXPECT_THROW(optimizer.step(), c10::Error);
    torch::serialize::OutputArchive archive;
    EXPECT_THROW(optimizer.save(archive), c10::Error);
    EXPECT_TRUE(torch::equal(p, before));
    p.set_data(before.clone());
    optimizer.step();
    EXPECT_FALSE(torch::equal(p, before));
  });
  EXPECT_EQ(errors, no_errors(3));
}

// Only the owner of the matrix computes its roots.
TEST(Faults, AHostTransformThatThrowsOnOneRank) {
  const auto errors = on_ranks(
      3,
      [](int, const Group& group) {
        const Tensors parameters = model(torch::kFloat32, /*only_matrices=*/true);
        Optimizer optimizer("shampoo", parameters,
                            GenericOptions(0.01).set("max_precondition_dim", 200.0));
        optimizer.shard(group);
        set_gradients(parameters, 1);
        parameters[0].mutable_grad().fill_(std::nan(""));
        const torch::Tensor before = parameters[1].detach().clone();
        EXPECT_THROW(optimizer.step(), c10::Error);
        EXPECT_TRUE(torch::equal(parameters[1], before));
        set_gradients(parameters, 1);
        optimizer.step();
        EXPECT_FALSE(torch::equal(parameters[1], before));
      },
      std::chrono::seconds(20));
  EXPECT_EQ(errors, no_errors(3));
}

TEST(Faults, AnotherGradientAfterACallOfTheClosure) {
  const auto errors = errors_of([](int rank, AdamW& optimizer, const Tensors& parameters) {
    const auto closure = [&] {
      optimizer.fp32_weights();
      if (rank == 1) parameters[4].mutable_grad().reset();
      return torch::zeros({});
    };
    optimizer.step(closure);
  });
  EXPECT_TRUE(all_name_rank_1(errors, "parameter 4"));
}

TEST(Faults, ARankThatCannotShareItsOptimizer) {
  const auto errors = on_ranks(
      3,
      [](int rank, const Group& group) {
        AdamW optimizer(model(), AdamWOptions(0.01));
        if (rank == 1) optimizer.step_in_backward();
        optimizer.shard(group);
      },
      std::chrono::seconds(20));
  EXPECT_TRUE(errors[1].find("step_in_backward") != std::string::npos) << errors[1];
  for (const int rank : {0, 2})
    EXPECT_TRUE(errors[static_cast<std::size_t>(rank)].find("rank 1 failed") != std::string::npos)
        << errors[static_cast<std::size_t>(rank)];
}

TEST(Faults, ShardAfterOffload) {
  const auto errors = on_ranks(1, [](int, const Group& group) {
    const Tensors parameters = model();
    AdamW optimizer(parameters, AdamWOptions(0.01));
    optimizer.offload();
    EXPECT_THROW(optimizer.shard(group), c10::Error);
    set_gradients(parameters, 1);
    optimizer.step();
  });
  EXPECT_EQ(errors, no_errors(1));
}

TEST(Faults, ShardWithoutAGroup) {
  AdamW optimizer(model(), AdamWOptions(0.01));
  EXPECT_THROW(optimizer.shard(Group()), c10::Error);
}

}  // namespace
}  // namespace jitstep::tests
