// Optimizers whose state ranks share end with the bits of one process, for every number of ranks.
#include <torch/serialize.h>

#include "optim_shard/ranks.h"
#include "support/own_folder.h"

namespace jitstep::tests {
namespace {

constexpr int kSteps = 3;

struct Case {
  std::string name, spec;
  torch::ScalarType dtype = torch::kFloat32;
  bool only_matrices = false;
  bool evaluates = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Outcome alone(const Case& c) {
  const Tensors parameters = model(c.dtype, c.only_matrices);
  const auto optimizer = Optimizer::from_spec(parameters, c.spec);
  for (int step = 1; step <= kSteps; ++step) set_gradients(parameters, step), optimizer->step();
  if (c.evaluates) optimizer->eval();
  return outcome_of(*optimizer, parameters);
}

// What a single process has after it loaded a checkpoint.
Outcome loaded(const Case& c, const Tensors& values, const std::string& checkpoint) {
  Tensors parameters = model(c.dtype, c.only_matrices);  // in its storage order
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = parameters[i].detach().copy_(values[i]).set_requires_grad(true);
  const auto whole = Optimizer::from_spec(parameters, c.spec);
  whole->load(checkpoint);
  return outcome_of(*whole, parameters);
}

class Ranks : public testing::TestWithParam<Case> {};

// Each rank compares its parameters and weights. A single process loads the checkpoints to compare state.
TEST_P(Ranks, EndWithTheBitsOfOneProcess) {
  const Case& c = GetParam();
  const Outcome expected = alone(c);
  const OwnFolder home;
  const std::string file = home.path + "/whole.pt", folder = home.path + "/parts";
  for (const int size : {1, 2, 3, 4, 8}) {
    const std::string what = c.name + " on " + std::to_string(size) + " ranks";
    const auto errors = on_ranks(size, [&](int rank, const Group& group) {
      const Tensors parameters = model(c.dtype, c.only_matrices);
      const auto optimizer = Optimizer::from_spec(parameters, c.spec);
      optimizer->shard(group);
      for (int step = 1; step <= kSteps; ++step) set_gradients(parameters, step), optimizer->step();
      if (c.evaluates) optimizer->eval();
      const std::string own = what + ", rank " + std::to_string(rank);
      expect_equal(parameters, expected.parameters, own + ": parameter");
      expect_equal(optimizer->fp32_weights(), expected.weights, own + ": weights of parameter");
      optimizer->save(file);
      optimizer->save_parts(folder);
    });
    ASSERT_EQ(errors, no_errors(size));
    for (const std::string& checkpoint : {file, folder})
      expect_equal(loaded(c, expected.parameters, checkpoint), expected, what + ", " + checkpoint);
  }
  const auto errors = on_ranks(3, [&](int, const Group& group) {  // from the parts of 8
    const auto optimizer = Optimizer::from_spec(model(c.dtype, c.only_matrices), c.spec);
    optimizer->shard(group);
    optimizer->load(folder);
    optimizer->save(file);
  });
  ASSERT_EQ(errors, no_errors(3));
  expect_equal(loaded(c, expected.parameters, file), expected, c.name + ", loaded on 3 ranks");
}

const std::vector<Case> kCases = {
    {"adamw", R"({"rule": "adamw"})"},
    {"adamw_int8_stochastic", R"({"rule": "adamw", "state": "int8", "weights": "stochastic"})",
     torch::kBFloat16},
    {"adamw_int4_split16", R"({"rule": "adamw", "state": "int4", "weights": "split16"})",
     torch::kBFloat16},
    {"lamb_clipped", R"({"rule": "lamb", "state": "int8", "options": {"max_grad_norm": 0.5}})"},
    {"adafactor_clipped", R"({"rule": "adafactor", "options": {"max_grad_norm": 0.5}})"},
    {"lamb16_fp8_norm", R"({"rule": "lamb16", "state": "fp8_norm"})"},
    {"amos", R"({"rule": "amos"})"},
    {"prodigy", R"({"rule": "prodigy"})"},
    {"dadapt_adam", R"({"rule": "dadapt_adam"})"},
    {"schedulefree_adamw", R"({"rule": "schedulefree_adamw"})", torch::kFloat32, false, true},
    {"adagrad", R"({"rule": "adagrad"})"},
    {"muon", R"({"rule": "muon"})", torch::kFloat32, true},
};

INSTANTIATE_TEST_SUITE_P(Of, Ranks, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

TEST(SharedOptimizer, StepsSeveralRulesTogether) {
  const auto make = [](const Tensors& parameters) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(Tensors{parameters[0], parameters[1]},
                        MuonOptions(0.02).max_grad_norm(0.5).copy());
    groups.emplace_back(Tensors{parameters[2], parameters[3]},
                        AdamWOptions(0.01).max_grad_norm(0.5).copy());
    return std::make_unique<Optimizer>(groups);
  };
  const Tensors expected = model(torch::kFloat32, true);
  const auto one = make(expected);
  for (int step = 1; step <= kSteps; ++step) set_gradients(expected, step), one->step();
  EXPECT_EQ(on_ranks(3,
                     [&](int, const Group& group) {
                       const Tensors parameters = model(torch::kFloat32, true);
                       const auto optimizer = make(parameters);
                       optimizer->shard(group);
                       for (int step = 1; step <= kSteps; ++step)
                         set_gradients(parameters, step), optimizer->step();
                       expect_equal(parameters, expected, "parameter");
                     }),
            no_errors(3));
}

TEST(SharedOptimizer, SkipsTheStepOnAllRanksIfOneFindsInfinities) {
  const Tensors expected = model();
  LAMB one(expected, LAMBOptions(0.01));
  for (const int step : {1, 3}) set_gradients(expected, step), one.step();
  EXPECT_EQ(on_ranks(3,
                     [&](int rank, const Group& group) {
                       const Tensors parameters = model();
                       LAMB optimizer(parameters, LAMBOptions(0.01));
                       optimizer.shard(group);
                       const torch::Tensor found = torch::zeros({});
                       optimizer.set_found_inf(found);
                       for (int step = 1; step <= kSteps; ++step) {
                         set_gradients(parameters, step);
                         found.fill_(step == 2 && rank == 1 ? 1 : 0);
                         optimizer.step();
                         EXPECT_EQ(found.item<float>(), step == 2 ? 1 : 0) << rank;
                       }
                       expect_equal(parameters, expected, "parameter");
                     }),
            no_errors(3));
}

TEST(SharedOptimizer, CutsStateThatExistsAlready) {
  const Tensors expected = model();
  AdamW one(expected, AdamWOptions(0.01).state("int8"));
  for (int step = 1; step <= 4; ++step) set_gradients(expected, step), one.step();
  EXPECT_EQ(on_ranks(2,
                     [&](int, const Group& group) {
                       const Tensors parameters = model();
                       AdamW optimizer(parameters, AdamWOptions(0.01).state("int8"));
                       for (int step = 1; step <= 2; ++step)
                         set_gradients(parameters, step), optimizer.step();
                       optimizer.shard(group);
                       EXPECT_LT(optimizer.memory_report().state_bytes(),
                                 one.memory_report().state_bytes());
                       for (int step = 3; step <= 4; ++step)
                         set_gradients(parameters, step), optimizer.step();
                       expect_equal(parameters, expected, "parameter");
                     }),
            no_errors(2));
}

// Before the next step, a part is bound to no parameter.
TEST(SharedOptimizer, HasFp32WeightsAfterACutAndAfterALoad) {
  const auto options = [] { return AdamWOptions(0.01).weights("split16"); };
  EXPECT_EQ(on_ranks(2,
                     [&](int, const Group& group) {
                       const Tensors parameters = model(torch::kBFloat16);
                       AdamW optimizer(parameters, options());
                       for (int step = 1; step <= 2; ++step)
                         set_gradients(parameters, step), optimizer.step();
                       const Tensors expected = optimizer.fp32_weights();
                       std::stringstream saved;
                       torch::save(optimizer, saved);
                       optimizer.shard(group);
                       expect_equal(optimizer.fp32_weights(), expected, "cut");
                       torch::load(optimizer, saved);
                       expect_equal(optimizer.fp32_weights(), expected, "loaded");
                     }),
            no_errors(2));
}

TEST(SharedOptimizer, KeepsAnEqualShareOfTheState) {
  const auto parameters = [] {
    return Tensors{torch::zeros({512, 512}).set_requires_grad(true),
                   torch::zeros({100, 1024}).set_requires_grad(true)};
  };
  std::vector<std::int64_t> bytes(4);
  std::vector<std::pair<std::int64_t, std::int64_t>> parts(4);
  EXPECT_EQ(on_ranks(4,
                     [&](int rank, const Group& group) {
                       const Tensors own = parameters();
                       AdamW optimizer(own, AdamWOptions(0.01));
                       optimizer.shard(group);
                       set_gradients(own, 1);
                       optimizer.step();
                       bytes[static_cast<std::size_t>(rank)] =
                           optimizer.memory_report().state_bytes();
                       parts[static_cast<std::size_t>(rank)] = optimizer.part_of(own[0]);
                     }),
            no_errors(4));
  std::int64_t next = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_LE(bytes[rank], (512 * 512 + 100 * 1024) * 8 / 4 + 4096 * 8);
    EXPECT_EQ(parts[rank].first, next);
    next = parts[rank].second;
  }
  EXPECT_EQ(next, 512 * 512);
}

TEST(SharedOptimizer, StepsOnlyParametersWithGradients) {
  const auto train = [](Optimizer& optimizer, const Tensors& parameters) {
    for (int step = 1; step <= kSteps; ++step) {
      set_gradients(parameters, step);
      if (step != 2) parameters[1].mutable_grad().reset();
      optimizer.step();
    }
  };
  const Tensors expected = model();
  LAMB one(expected, LAMBOptions(0.01).max_grad_norm(0.5));
  train(one, expected);
  EXPECT_EQ(on_ranks(2,
                     [&](int, const Group& group) {
                       const Tensors parameters = model();
                       LAMB optimizer(parameters, LAMBOptions(0.01).max_grad_norm(0.5));
                       optimizer.shard(group);
                       train(optimizer, parameters);
                       expect_equal(parameters, expected, "parameter");
                     }),
            no_errors(2));
}

TEST(SharedOptimizer, ClearsWholeGradients) {
  EXPECT_EQ(on_ranks(2,
                     [&](int, const Group& group) {
                       const Tensors parameters = model();
                       AdamW optimizer(parameters, AdamWOptions(0.01));
                       optimizer.shard(group);
                       optimizer.zero_grad_in_step();
                       set_gradients(parameters, 1);
                       optimizer.step();
                       for (const torch::Tensor& p : parameters)
                         EXPECT_EQ(p.grad().count_nonzero().item<std::int64_t>(), 0);
                     }),
            no_errors(2));
}

}  // namespace
}  // namespace jitstep::tests
