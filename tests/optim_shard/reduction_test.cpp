// Own gradients, reduced in backward() or in step(), end with the bits of average_gradients().
#include <algorithm>
#include <cmath>

#include "optim_shard/own_gradients.h"

namespace jitstep::tests {
namespace {

constexpr int kSteps = 3;

struct Case {
  std::string name, spec;
  torch::ScalarType dtype = torch::kFloat32;
  bool only_matrices = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case> kCases = {
    {"adamw_int8_stochastic", R"({"rule": "adamw", "state": "int8", "weights": "stochastic"})",
     torch::kBFloat16},
    {"lamb_clipped", R"({"rule": "lamb", "state": "int8", "options": {"max_grad_norm": 0.5}})"},
    {"adafactor_clipped", R"({"rule": "adafactor", "options": {"max_grad_norm": 0.5}})"},
    {"prodigy", R"({"rule": "prodigy"})"},
    {"muon", R"({"rule": "muon"})", torch::kFloat32, true},
};

class OwnGradients : public testing::TestWithParam<Case> {};

TEST_P(OwnGradients, GiveTheBitsOfAveragedGradients) {
  const Case& c = GetParam();
  for (const int size : {1, 2, 3}) {
    const auto errors = on_ranks(size, [&](int rank, const Group& group) {
      const Tensors expected = averaged(group, c.spec, model(c.dtype, c.only_matrices), kSteps);
      for (const bool in_backward : {true, false}) {
        const Tensors parameters = model(c.dtype, c.only_matrices);
        const auto optimizer = Optimizer::from_spec(parameters, c.spec);
        optimizer->shard(group, own_gradients(in_backward));
        for (int step = 1; step <= kSteps; ++step) {
          optimizer->zero_grad();
          loss_of(parameters, step, rank).backward();
          EXPECT_NE(parameters[0].grad().defined(), in_backward);
          optimizer->step();
        }
        expect_equal(parameters, expected, c.name + " on " + std::to_string(size) + " ranks");
      }
    });
    ASSERT_EQ(errors, no_errors(size));
  }
}
INSTANTIATE_TEST_SUITE_P(Of, OwnGradients, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

// Trains with so many micro-batches of all ranks together.
Tensors trained(int size, int micro_batches, torch::ScalarType dtype, std::int64_t bucket_bytes) {
  Tensors result;
  EXPECT_EQ(on_ranks(size,
                     [&](int rank, const Group& group) {
                       const Tensors parameters = model(dtype);
                       LAMB optimizer(parameters,
                                      LAMBOptions(0.01).state("int8").max_grad_norm(0.5));
                       const int own = micro_batches / size;
                       optimizer.shard(
                           group, own_gradients().micro_batches(own).bucket_bytes(bucket_bytes));
                       for (int step = 1; step <= kSteps; ++step) {
                         for (int m = 0; m < own; ++m)
                           loss_of(parameters, step, rank * own + m).backward();
                         optimizer.step();
                       }
                       if (rank == 0) result = parameters;
                     }),
            no_errors(size));
  return result;
}

class MicroBatches : public testing::TestWithParam<torch::ScalarType> {};

TEST_P(MicroBatches, GiveTheSameBitsOnAnyNumberOfRanks) {
  const Tensors expected = trained(4, 4, GetParam(), 1 << 20);
  for (const int size : {1, 2})
    expect_equal(trained(size, 4, GetParam(), 20000), expected,
                 std::to_string(size) + " ranks: parameter");
  expect_equal(trained(1, 3, GetParam(), 0), trained(3, 3, GetParam(), 1 << 20),
               "three micro-batches: parameter");
}
INSTANTIATE_TEST_SUITE_P(Of, MicroBatches, testing::Values(torch::kFloat32, torch::kBFloat16));

TEST(ReducedGradients, OfFewerMicroBatchesAreTheirMean) {
  EXPECT_EQ(on_ranks(2,
                     [&](int rank, const Group& group) {
                       const std::string spec = R"({"rule": "sgd", "options": {"lr": 0.5}})";
                       const Tensors expected = averaged(group, spec, model(), kSteps);
                       const Tensors parameters = model();
                       const auto optimizer = Optimizer::from_spec(parameters, spec);
                       optimizer->shard(group, own_gradients().micro_batches(4));
                       for (int step = 1; step <= kSteps; ++step)
                         loss_of(parameters, step, rank).backward(), optimizer->step();
                       expect_equal(parameters, expected, "parameter");
                     }),
            no_errors(2));
}

TEST(ReducedGradients, OfABackEndAreItsMean) {
  EXPECT_EQ(on_ranks(3,
                     [](int rank, const Group& group) {
                       const std::string spec = R"({"rule": "sgd", "options": {"lr": 0.5}})";
                       const Tensors expected = averaged(group, spec, model(), kSteps);
                       const Tensors parameters = model();
                       const auto optimizer = Optimizer::from_spec(parameters, spec);
                       optimizer->shard(
                           group, own_gradients().reduction(ShardOptions::Reduction::backend));
                       for (int step = 1; step <= kSteps; ++step)
                         loss_of(parameters, step, rank).backward(), optimizer->step();
                       for (std::size_t i = 0; i < parameters.size(); ++i)
                         EXPECT_TRUE(torch::allclose(parameters[i], expected[i], 1e-5, 1e-6)) << i;
                     }),
            no_errors(3));
}

TEST(ReducedGradients, AreSkippedOnAllRanksIfOneHasInfinities) {
  EXPECT_EQ(on_ranks(2,
                     [](int rank, const Group& group) {
                       const auto train = [&](const Tensors& parameters, GradScaler* scaler) {
                         AdamW optimizer(parameters, AdamWOptions(0.01));
                         optimizer.shard(group, own_gradients());
                         for (int step = 1; step <= kSteps; ++step) {
                           torch::Tensor loss = loss_of(parameters, step, rank);
                           const bool infinite = step == 2 && rank == 1;
                           if (scaler == nullptr) {
                             if (step == 2) continue;
                             loss.backward();
                             optimizer.step();
                             continue;
                           }
                           if (infinite) loss = loss + parameters[0][7] * INFINITY;
                           scaler->scale(loss).backward();
                           EXPECT_THROW(scaler->unscale_(optimizer), c10::Error);
                           scaler->step(optimizer);
                           scaler->update();
                         }
                       };
                       const Tensors expected = model(), parameters = model();
                       train(expected, nullptr);
                       GradScaler scaler(GradScalerOptions().init_scale(1024));
                       train(parameters, &scaler);
                       EXPECT_EQ(scaler.get_scale(), 512) << rank;
                       expect_equal(parameters, expected, "parameter");
                     }),
            no_errors(2));
}

// A rank may have had an empty micro-batch. Its missing gradients count as zeros.
TEST(ReducedGradients, OfAScaledLossMayBeAbsentOnARank) {
  EXPECT_EQ(on_ranks(2,
                     [](int rank, const Group& group) {
                       const Tensors parameters = model();
                       const torch::Tensor before = parameters[0].detach().clone();
                       AdamW optimizer(parameters, AdamWOptions(0.01));
                       optimizer.shard(group, own_gradients(false));
                       GradScaler scaler(GradScalerOptions().init_scale(1024));
                       const torch::Tensor scaled = scaler.scale(loss_of(parameters, 1, rank));
                       if (rank == 0) scaled.backward();
                       scaler.step(optimizer);
                       scaler.update();
                       EXPECT_EQ(scaler.get_scale(), 1024);
                       EXPECT_FALSE(torch::equal(parameters[0], before));
                     }),
            no_errors(2));
}

// With momentum, a step without gradients would move a parameter.
TEST(ReducedGradients, OfNoBackwardStepNothing) {
  EXPECT_EQ(on_ranks(2,
                     [](int rank, const Group& group) {
                       const Tensors parameters = model();
                       AdamW optimizer(parameters, AdamWOptions(0.01));
                       optimizer.shard(group, own_gradients());
                       loss_of(parameters, 1, rank).backward();
                       optimizer.step();
                       const torch::Tensor before = parameters[0].detach().clone();
                       optimizer.step();
                       EXPECT_TRUE(torch::equal(parameters[0], before));
                     }),
            no_errors(2));
}

/// gloo that counts exchanges.
class CountingGloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;
  c10::intrusive_ptr<c10d::Work> alltoall_base(torch::Tensor& out, torch::Tensor& in,
                                               std::vector<std::int64_t>& from,
                                               std::vector<std::int64_t>& to,
                                               const c10d::AllToAllOptions& options) override {
    ++count;
    return ProcessGroupGloo::alltoall_base(out, in, from, to, options);
  }
  int count = 0;
};

// Reads a number in backward(). What was computed later runs first.
struct Observation : torch::autograd::Function<Observation> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               std::function<void()>* observe) {
    context->saved_data["observe"] = reinterpret_cast<std::int64_t>(observe);
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               const torch::autograd::tensor_list& g) {
    (*reinterpret_cast<std::function<void()>*>(context->saved_data["observe"].toInt()))();
    return {g[0], torch::Tensor()};
  }
};

// The last parameter belongs to the first bucket.
TEST(ReducedGradients, TravelInBackwardAndAreFreedAlsoWithFrozenParameters) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(on_ranks(2,
                     [&](int rank, const Group&) {
                       const auto gloo = c10::make_intrusive<CountingGloo>(
                           store, rank, 2, gloo_options(std::chrono::seconds(120)));
                       const Tensors parameters = model();
                       parameters[7].set_requires_grad(false);
                       AdamW optimizer(parameters, AdamWOptions(0.01));
                       optimizer.shard(group_of(store, rank, 2, gloo), own_gradients());
                       int sent = 0;
                       std::int64_t present = 0;
                       std::function<void()> observe = [&] {
                         sent = gloo->count;
                         present = std::count_if(parameters.begin(), parameters.end(),
                                                 [](const auto& p) { return p.grad().defined(); });
                       };
                       const auto x = torch::ones({}).set_requires_grad(true);
                       const torch::Tensor first = Observation::apply(x, &observe);
                       torch::Tensor loss = first;
                       for (std::size_t i = 0; i < 7; ++i) loss = loss + parameters[i].sum();
                       loss.backward();
                       EXPECT_GE(sent, 2);
                       EXPECT_EQ(present, 0);
                       optimizer.step();
                       EXPECT_EQ(optimizer.state().count(parameters[7].unsafeGetTensorImpl()), 0U);
                     }),
            no_errors(2));
}

// Rank 0 has gradients of the frozen parameters, from before they were frozen. The other rank has none.
TEST(ReducedGradients, MayIncludeThoseOfFrozenParameters) {
  for (const std::size_t frozen : {0, 3, 7})
    EXPECT_EQ(on_ranks(
                  2,
                  [&](int rank, const Group& group) {
                    const Tensors parameters = model();
                    const torch::Tensor before = parameters[frozen].detach().clone();
                    parameters[frozen].set_requires_grad(false);
                    AdamW optimizer(parameters, AdamWOptions(0.01));
                    optimizer.shard(group, own_gradients().in_backward(false));
                    for (int step = 1; step <= 2; ++step) {
                      set_gradients(parameters, step);
                      if (rank > 0) parameters[frozen].mutable_grad().reset();
                      EXPECT_NO_THROW(optimizer.step()) << frozen;
                    }
                    EXPECT_FALSE(torch::equal(parameters[frozen], before)) << frozen;
                  },
                  std::chrono::seconds(20)),
              no_errors(2));
}

}  // namespace
}  // namespace jitstep::tests
