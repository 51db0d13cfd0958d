// Checkpoints of shared optimizers, in a file or in a folder, loaded by other numbers of ranks.
#include <torch/serialize.h>

#include <array>
#include <sstream>

#include "optim_shard/ranks.h"
#include "support/own_folder.h"

namespace jitstep::tests {
namespace {

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

// The parameter: whether the checkpoint is a folder.
class SharedCheckpoint : public testing::TestWithParam<bool> {
 protected:
  void save(const Optimizer& optimizer, const std::string& path) const {
    GetParam() ? optimizer.save_parts(path) : optimizer.save(path);
  }

  void save_on(int size) const {
    ASSERT_EQ(on_ranks(size,
                       [&](int, const Group& group) {
                         const Tensors parameters = model();
                         const Made optimizer = make(parameters);
                         optimizer->shard(group);
                         train(*optimizer, parameters, 1, 2);
                         save(*optimizer, checkpoint_);
                       }),
              no_errors(size));
  }

  OwnFolder folder_;
  const std::string checkpoint_ = folder_.path + "/checkpoint";
};

INSTANTIATE_TEST_SUITE_P(In, SharedCheckpoint, testing::Bool(),
                         [](const auto& test) { return test.param ? "folder" : "file"; });

TEST_P(SharedCheckpoint, ContinuesOnAnyNumberOfRanks) {
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
                           optimizer->load(checkpoint_);
                           train(*optimizer, parameters, 3, 4);
                           expect_equal(parameters, expected, what);
                         }),
                no_errors(to));
    }
  }
}

TEST_P(SharedCheckpoint, IsThatOfASingleProcess) {
  const Tensors parameters = copies(halfway());
  const Made alone = make(parameters);
  Tensors trained = model();
  const Made one = make(trained);
  train(*one, trained, 1, 2);
  save_on(3);
  alone->load(checkpoint_);
  expect_equal(outcome_of(*alone, parameters), outcome_of(*one, trained), "loaded");
}

TEST(SharedArchives, OfOtherRanksThanTheFirstAreRefused) {
  std::array<std::stringstream, 2> saved;
  const auto save = [&](int rank, const Group& group) {
    const Tensors parameters = model();
    const Made optimizer = make(parameters);
    optimizer->shard(group);
    train(*optimizer, parameters, 1, 1);
    torch::save(*optimizer, saved[static_cast<std::size_t>(rank)]);
  };
  ASSERT_EQ(on_ranks(2, save), no_errors(2));
  const Tensors parameters = model();
  const Made alone = make(parameters);
  EXPECT_NO_THROW(torch::load(*alone, saved[0]));
  EXPECT_THROW(torch::load(*alone, saved[1]), c10::Error);
}

TEST_P(SharedCheckpoint, ConvertsToOtherFormatsAsASingleProcessDoes) {
  save_on(2);
  const Tensors middle = halfway();
  for (const char* state : {"fp32", "fp8_norm"}) {
    const Tensors expected = copies(middle);
    const Made one = make(expected, state);
    one->load(checkpoint_);
    train(*one, expected, 3, 4);
    EXPECT_EQ(on_ranks(3,
                       [&](int, const Group& group) {
                         const Tensors parameters = copies(middle);
                         const Made optimizer = make(parameters, state);
                         optimizer->shard(group);
                         optimizer->load(checkpoint_);
                         train(*optimizer, parameters, 3, 4);
                         expect_equal(parameters, expected, state);
                       }),
              no_errors(3));
  }
}

TEST_P(SharedCheckpoint, ThatCannotBeReadChangesNoRank) {
  const Tensors expected = model();
  train(*make(expected), expected, 1, 3);
  const auto errors = on_ranks(2, [&](int rank, const Group& group) {
    const Tensors parameters = model();
    const Made optimizer = make(parameters);
    optimizer->shard(group);
    train(*optimizer, parameters, 1, 2);
    save(*optimizer, checkpoint_);
    EXPECT_THROW(optimizer->load(rank == 1 ? checkpoint_ + ".missing" : checkpoint_), c10::Error);
    train(*optimizer, parameters, 3, 3);
    expect_equal(parameters, expected, "parameter");
  });
  EXPECT_EQ(errors, no_errors(2));
}

TEST_P(SharedCheckpoint, ThatCannotBeWrittenFailsOnAllRanks) {
  const auto errors = on_ranks(2, [&](int, const Group& group) {
    const Tensors parameters = model();
    const Made optimizer = make(parameters);
    optimizer->shard(group);
    train(*optimizer, parameters, 1, 1);
    EXPECT_THROW(save(*optimizer, checkpoint_ + "/no_folder/x"), c10::Error);
    train(*optimizer, parameters, 2, 2);
  });
  EXPECT_EQ(errors, no_errors(2));
}

}  // namespace
}  // namespace jitstep::tests
