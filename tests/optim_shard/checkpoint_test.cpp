// Checkpoints of shared optimizers, loaded by other numbers of ranks.
#include "optim_shard/ranks.h"

namespace jitstep::tests {
namespace {

const std::string kFile = testing::TempDir() + "shared_checkpoint.pt";

using Made = std::unique_ptr<Optimizer>;

Made make(const Tensors& parameters, const std::string& state = "int8") {
  return Optimizer::from_spec(
      parameters,
      R"({"rule": "lamb", "options": {"max_grad_norm": 0.5}, "state": ")" + state + "\"}");
}

void train(Optimizer& optimizer, const Tensors& parameters, int first, int last) {
  for (int step = first; step <= last; ++step) set_gradients(parameters, step), optimizer.step();
}

// The parameters after step 2, in the model's layout.
Tensors halfway(const std::string& state = "int8") {
  Tensors parameters = model();
  train(*make(parameters, state), parameters, 1, 2);
  return parameters;
}

Tensors copies(const Tensors& parameters) {
  Tensors made = model();
  torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < made.size(); ++i) made[i].copy_(parameters[i]);
  return made;
}

void save_on(int size) {
  ASSERT_EQ(on_ranks(size,
                     [&](int, const Group& group) {
                       const Tensors parameters = model();
                       const Made optimizer = make(parameters);
                       optimizer->shard(group);
                       train(*optimizer, parameters, 1, 2);
                       optimizer->save(kFile);
                     }),
            no_errors(size));
}

TEST(SharedCheckpoint, ContinuesOnAnyNumberOfRanks) {
  const Tensors expected = model();
  train(*make(expected), expected, 1, 4);
  const Tensors middle = halfway();
  for (const int from : {1, 2, 3, 4}) {
    save_on(from);
    for (const int to : {1, 2, 3, 4}) {
      const std::string what = std::to_string(from) + " ranks, then " + std::to_string(to);
      EXPECT_EQ(on_ranks(to,
                         [&](int, const Group& group) {
                           const Tensors parameters = copies(middle);
                           const Made optimizer = make(parameters);
                           optimizer->shard(group);
                           optimizer->load(kFile);
                           train(*optimizer, parameters, 3, 4);
                           expect_equal(parameters, expected, what);
                         }),
                no_errors(to));
    }
  }
}

TEST(SharedCheckpoint, IsThatOfASingleProcess) {
  const Tensors parameters = copies(halfway());
  const Made alone = make(parameters);
  Tensors trained = model();
  const Made one = make(trained);
  train(*one, trained, 1, 2);
  save_on(3);
  alone->load(kFile);
  expect_equal(outcome_of(*alone, parameters), outcome_of(*one, trained), "loaded");
}

TEST(SharedCheckpoint, ConvertsToOtherFormatsAsASingleProcessDoes) {
  save_on(2);
  const Tensors middle = halfway();
  for (const char* state : {"fp32", "fp8_norm"}) {
    const Tensors expected = copies(middle);
    const Made one = make(expected, state);
    one->load(kFile);
    train(*one, expected, 3, 4);
    EXPECT_EQ(on_ranks(3,
                       [&](int, const Group& group) {
                         const Tensors parameters = copies(middle);
                         const Made optimizer = make(parameters, state);
                         optimizer->shard(group);
                         optimizer->load(kFile);
                         train(*optimizer, parameters, 3, 4);
                         expect_equal(parameters, expected, state);
                       }),
              no_errors(3));
  }
}

TEST(SharedCheckpoint, ThatCannotBeReadChangesNoRank) {
  const Tensors expected = model();
  train(*make(expected), expected, 1, 3);
  const auto errors = on_ranks(2, [&](int rank, const Group& group) {
    const Tensors parameters = model();
    const Made optimizer = make(parameters);
    optimizer->shard(group);
    train(*optimizer, parameters, 1, 2);
    optimizer->save(kFile);
    EXPECT_THROW(optimizer->load(rank == 1 ? kFile + ".missing" : kFile), c10::Error);
    train(*optimizer, parameters, 3, 3);
    expect_equal(parameters, expected, "parameter");
  });
  EXPECT_EQ(errors, no_errors(2));
}

TEST(SharedCheckpoint, ThatCannotBeWrittenFailsOnAllRanks) {
  const auto errors = on_ranks(2, [&](int, const Group& group) {
    const Tensors parameters = model();
    const Made optimizer = make(parameters);
    optimizer->shard(group);
    train(*optimizer, parameters, 1, 1);
    EXPECT_THROW(optimizer->save(testing::TempDir() + "no_folder/x.pt"), c10::Error);
    train(*optimizer, parameters, 2, 2);
  });
  EXPECT_EQ(errors, no_errors(2));
}

}  // namespace
}  // namespace jitstep::tests
