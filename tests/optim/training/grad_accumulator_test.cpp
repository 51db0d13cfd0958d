#include <jitstep/grad_accumulator.h>
#include <torch/autograd.h>

#include <limits>
#include <utility>

#include "jitstep/jit/step.h"
#include "optim/optimizer/backward.h"

namespace jitstep::tests {
namespace {

const auto kFloats = GradAccumulatorOptions().dtype(torch::kFloat32);

TEST(GradAccumulator, LeavesParametersWithoutGradientsAlone) {
  const Tensors parameters = make_parameters();
  const Tensors ones = {torch::ones({5, 3}), {}, torch::ones({})};
  GradAccumulator sums(parameters, kFloats);
  backward(parameters, ones);
  backward(parameters, {{}, {}, torch::ones({})});
  sums.assign_gradients();
  EXPECT_EQ(parameters[0].grad().sum().item<float>(), 15);
  EXPECT_FALSE(parameters[1].grad().defined());
  EXPECT_EQ(parameters[2].grad().item<float>(), 2);
  for (const torch::Tensor& p : parameters) p.mutable_grad().reset();
  sums.assign_gradients();
  for (const torch::Tensor& p : parameters) EXPECT_FALSE(p.grad().defined());
}

TEST(GradAccumulator, ForgetsTheGradientsOfAFailedAdditionInReset) {
  const torch::Tensor p = leaf({4}), table = leaf({3, 2});
  GradAccumulator sums({p, table}, kFloats);
  const torch::Tensor rows = torch::embedding(table, torch::tensor({0, 2}), -1, false, true);
  EXPECT_THROW((p.sum() + rows.sum()).backward(), c10::Error);
  sums.reset();
  EXPECT_FALSE(p.grad().defined());
  EXPECT_FALSE(table.grad().defined());
  backward(p, torch::ones({4}));
  sums.assign_gradients();
  EXPECT_TRUE(torch::equal(p.grad(), torch::ones({4})));
}

TEST(GradAccumulator, FreesGradientsAtTheEndOfEachBackward) {
  const Tensors parameters = make_parameters();
  GradAccumulator sums(parameters);
  for (int batch = 0; batch < 2; ++batch) {
    backward(parameters, random_gradients(parameters, batch));
    for (const torch::Tensor& p : parameters) EXPECT_FALSE(p.grad().defined());
    EXPECT_EQ(sums.micro_batches(), batch + 1);
  }
}

TEST(GradAccumulator, AddsByOneLaunchForAllParameters) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{5, 3}, {70000}, {}, {0}, {4, 4}});
  GradAccumulator sums(parameters);
  Tensors gradients = random_gradients(parameters, 1);
  for (int batch = 0; batch < 3; ++batch) {
    gradients[0] = batch == 1 ? torch::Tensor()
                              : torch::ones({5, 3});  // an inactive parameter costs no launch
    const auto before = jit::launch_count();
    backward(parameters, gradients);
    EXPECT_EQ(jit::launch_count() - before, 1u);
  }
}

// Gradients of 12 bytes each, in the order of their computation.
TEST(GradAccumulator, AddsGradientsAtOnceThatExceedTheWaitingLimit) {
  const auto sums_and_launches = [](std::int64_t bytes) {
    const Tensors parameters = make_parameters(torch::kFloat32, {{3}, {3}, {3}, {3}, {3}});
    GradAccumulator sums(parameters, GradAccumulatorOptions().max_waiting_bytes(bytes));
    std::vector<std::uint64_t> launches;
    for (int batch = 0; batch < 3; ++batch) {
      launches.push_back(jit::launch_count());
      backward(parameters, random_gradients(parameters, batch));
      launches.back() = jit::launch_count() - launches.back();
    }
    EXPECT_EQ(sums.micro_batches(), 3);
    sums.assign_gradients();
    Tensors grads;
    for (const torch::Tensor& p : parameters) grads.push_back(p.grad());
    return std::pair(grads, launches);
  };
  using Counts = std::vector<std::uint64_t>;
  const auto [expected, one] = sums_and_launches(60);
  EXPECT_EQ(one, Counts(3, 1));
  const auto [bunches, three] = sums_and_launches(12);
  EXPECT_EQ(three, Counts(3, 3));
  const auto [single, five] = sums_and_launches(0);
  EXPECT_EQ(five, Counts(3, 5));
  expect_equal(bunches, expected);
  expect_equal(single, expected);
}

TEST(GradAccumulator, LaunchesNothingWithoutGradients) {
  const Tensors parameters = make_parameters();
  GradAccumulator sums({parameters[0]});
  const auto before = jit::launch_count();
  backward(parameters, {{}, torch::ones({3}), torch::ones({})});
  torch::autograd::grad({parameters[0].sum()}, {parameters[0]});  // is returned to the caller only
  sums.assign_gradients();
  EXPECT_EQ(jit::launch_count(), before);
  EXPECT_EQ(sums.micro_batches(), 0);
  EXPECT_FALSE(parameters[0].grad().defined());
  EXPECT_TRUE(parameters[1].grad().defined());
}

TEST(GradAccumulator, StartsANewSumInEachWindow) {
  const torch::Tensor p = leaf({3});
  GradAccumulator sums({p}, kFloats);
  for (int window = 1; window <= 3; ++window) {
    for (int batch = 0; batch < 2; ++batch) backward(p, torch::full({3}, window));
    sums.assign_gradients();
    EXPECT_EQ(sums.micro_batches(), 0);
    EXPECT_EQ(p.grad()[2].item<float>(), 2 * window);
    p.mutable_grad().reset();
  }
}

// The accumulator reuses a buffer only if nobody else holds it.
TEST(GradAccumulator, KeepsASumThatTheProgramHolds) {
  const torch::Tensor p = leaf({3});
  GradAccumulator sums({p}, kFloats);
  Tensors held;
  for (int window = 0; window < 3; ++window) {
    backward(p, torch::full({3}, window));
    sums.assign_gradients();
    held.push_back(window == 1 ? p.grad().view({3, 1}) : p.grad());
    p.mutable_grad().reset();
  }
  for (int window = 0; window < 3; ++window)
    EXPECT_EQ(held[window].sum().item<float>(), 3 * window);
}

// As torch accumulates its own gradients.
TEST(GradAccumulator, AddsToGradientsThatWereNotCleared) {
  const torch::Tensor p = leaf({3});
  GradAccumulator sums({p}, kFloats);
  for (int window = 1; window <= 3; ++window) {
    for (int batch = 0; batch < 2; ++batch) backward(p, torch::ones({3}));
    sums.assign_gradients();
    EXPECT_EQ(p.grad()[0].item<float>(), 2 * window);
  }
}

TEST(GradAccumulator, DividesByTheMicroBatchesIfAsked) {
  const Tensors parameters = {leaf({2}), leaf({2})};
  GradAccumulator sums(parameters, GradAccumulatorOptions(kFloats).mean(true));
  backward(parameters, {torch::full({2}, 3), torch::full({2}, 6)});
  backward(parameters, {torch::full({2}, 5), {}});
  sums.assign_gradients();
  EXPECT_EQ(parameters[0].grad()[0].item<float>(), 4);
  EXPECT_EQ(parameters[1].grad()[0].item<float>(), 3);
}

// Computes f's gradients by an inner backward inside the outer one, as checkpointing does.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  using Context = torch::autograd::AutogradContext;
  using Segment = std::function<torch::Tensor(const torch::Tensor&)>;
  static torch::Tensor forward(Context* context, const torch::Tensor& x, Segment* f) {
    context->save_for_backward({x});
    context->saved_data["f"] = reinterpret_cast<std::int64_t>(f);
    return (*f)(x);
  }
  static torch::autograd::tensor_list backward(Context* context, torch::autograd::tensor_list g) {
    const auto x = context->get_saved_variables()[0].detach().set_requires_grad(true);
    const torch::AutoGradMode on(true);
    (*reinterpret_cast<Segment*>(context->saved_data["f"].toInt()))(x).backward(g[0]);
    return {x.grad(), torch::Tensor()};
  }
};

TEST(GradAccumulator, CountsANestedBackwardOnce) {
  for (const std::int64_t waiting : {std::int64_t{0}, std::int64_t{1} << 28})
    for (const bool outer_has_parameters : {true, false}) {
      const torch::Tensor p = leaf({3}), q = leaf({3}), last = leaf({3});
      GradAccumulatorOptions options = kFloats;
      GradAccumulator sums({p, q, last}, options.mean(true).max_waiting_bytes(waiting));
      Checkpoint::Segment second = [&](const torch::Tensor& x) { return x + q + 2 * p; };
      Checkpoint::Segment inner = [&](const torch::Tensor& x) { return x + p; };
      Checkpoint::Segment first = [&](const torch::Tensor& x) {
        return Checkpoint::apply(x, &inner);  // nested twice
      };
      const torch::Tensor x = torch::ones({3}).set_requires_grad(true);
      for (int batch = 1; batch <= 2; ++batch) {
        torch::Tensor loss = Checkpoint::apply(Checkpoint::apply(x, &first), &second).sum();
        if (outer_has_parameters) loss = loss + (4 * last).sum();
        loss.backward();
        EXPECT_EQ(sums.micro_batches(), batch);
      }
      sums.assign_gradients();
      EXPECT_EQ(p.grad()[1].item<float>(), 3);
      EXPECT_EQ(q.grad()[1].item<float>(), 1);
      EXPECT_EQ(last.grad().defined(), outer_has_parameters);
      if (outer_has_parameters) {
        EXPECT_EQ(last.grad()[1].item<float>(), 4);
      }
    }
}

TEST(GradAccumulator, RestartsAfterASumIsReset) {
  const torch::Tensor p = leaf({3});
  GradAccumulator sums({p}, kFloats);
  backward(p, torch::full({3}, std::numeric_limits<float>::quiet_NaN()));
  sums.reset();
  EXPECT_EQ(sums.micro_batches(), 0);
  backward(p, torch::ones({3}));
  sums.assign_gradients();
  EXPECT_EQ(p.grad().sum().item<float>(), 3);
}

TEST(GradAccumulator, ReadsGradientsAndParametersOfAnyLayout) {
  const Warnings of_torch;  // about layouts that may be slower
  const torch::Tensor permuted = torch::zeros({40, 30}).t().set_requires_grad(true);
  const torch::Tensor gaps =
      torch::zeros({30, 80}).slice(1, 0, 80, 2).detach().set_requires_grad(true);
  for (const torch::Tensor& p : {permuted, gaps}) {
    GradAccumulator sums({p}, kFloats);
    torch::manual_seed(3);
    const torch::Tensor g = torch::randn({30, 40});
    backward(p, g);
    p.mutable_grad() = torch::randn({40, 30}).t();  // torch adds to it in place
    const torch::Tensor expected = g + (p.grad() + g);
    backward(p, g);
    sums.assign_gradients();
    EXPECT_TRUE(torch::equal(p.grad(), expected));
  }
}

TEST(GradAccumulator, AcceptsEmptyAndDuplicateParameters) {
  const torch::Tensor empty = leaf({0, 4}), twice = leaf({2});
  GradAccumulator sums({empty, twice, twice}, kFloats);
  backward({empty, twice}, {torch::ones({0, 4}), torch::ones({2})});
  sums.assign_gradients();
  EXPECT_EQ(empty.grad().sizes(), empty.sizes());
  EXPECT_EQ(twice.grad().sum().item<float>(), 2);
}

TEST(GradAccumulator, AddsAGradientWithSeveralPathsOnce) {
  const torch::Tensor p = leaf({3});
  GradAccumulator sums({p}, kFloats);
  (p.sum() + (2 * p).sum() + (p * p).sum()).backward();
  EXPECT_EQ(sums.micro_batches(), 1);
  sums.assign_gradients();
  EXPECT_EQ(p.grad()[0].item<float>(), 3);
}

// Gradients whose dtype differs from the parameter's.
TEST(GradAccumulator, FeedsAStep) {
  const Tensors parameters = make_parameters(), expected = clones(parameters);
  AdamW opt(parameters, AdamWOptions(1e-2)), reference(expected, AdamWOptions(1e-2));
  GradAccumulator sums(parameters);
  for (int step = 0; step < 3; ++step) {
    for (int batch = 0; batch < 4; ++batch)
      backward(parameters, random_gradients(parameters, 10 * step + batch));
    sums.assign_gradients();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(parameters[i].grad().scalar_type(), torch::kBFloat16);
      expected[i].mutable_grad() = parameters[i].grad().to(torch::kFloat32);
    }
    opt.step();
    reference.step();
    opt.zero_grad();
    expect_equal(parameters, expected);
  }
}

TEST(GradAccumulator, FeedsAStepOfTorchsOptimizer) {
  const Tensors parameters = make_parameters(), expected = clones(parameters);
  torch::optim::AdamW opt(parameters), reference(expected);
  GradAccumulator sums(parameters);
  backward(parameters, random_gradients(parameters, 1));
  sums.assign_gradients();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expected[i].mutable_grad() = parameters[i].grad().to(torch::kFloat32);
  opt.step();
  reference.step();
  expect_equal(parameters, expected);
}

TEST(GradAccumulator, SumsScaledGradients) {
  const Tensors parameters = make_parameters(), expected = clones(parameters);
  AdamW opt(parameters), reference(expected);
  GradAccumulator sums(parameters, kFloats);
  GradScaler scaler(GradScalerOptions().init_scale(1024));
  for (int batch = 0; batch < 2; ++batch) {
    const Tensors gradients = random_gradients(parameters, batch);
    scaler.scale(loss_with(parameters, gradients)).backward();
    backward(expected, gradients);
  }
  sums.assign_gradients();
  scaler.step(opt);
  reference.step();
  expect_equal(parameters, expected);
}

TEST(GradAccumulator, RejectsOtherDtypesAndNonLeafTensors) {
  const torch::Tensor p = leaf({3});
  EXPECT_HAS(argument_error(
                 [&] { GradAccumulator({p}, GradAccumulatorOptions().dtype(torch::kFloat16)); }),
             "bfloat16 or float32");
  EXPECT_HAS(
      argument_error([&] { GradAccumulator({p}, GradAccumulatorOptions().max_waiting_bytes(-1)); }),
      "max_waiting_bytes is -1");
  EXPECT_HAS(argument_error([&] { GradAccumulator({2 * p}); }), "non-leaf");
}

TEST(GradAccumulator, RejectsAParameterWhoseShapeChanged) {
  torch::Tensor p = leaf({3});
  const torch::Tensor q = leaf({2});
  GradAccumulator sums({q, p}, kFloats);
  (p.sum() + q.sum()).backward();
  p.set_data(torch::zeros({5}));
  EXPECT_HAS(argument_error([&] { sums.assign_gradients(); }),
             "the sum of parameter 1 has the shape [3]");
  EXPECT_FALSE(q.grad().defined());
  sums.reset();
  backward(p, torch::ones({5}));
  sums.assign_gradients();
  EXPECT_EQ(p.grad().sum().item<float>(), 5);
}

TEST(GradAccumulator, RejectsSparseGradientsInBackwardAndKeepsItsSums) {
  const torch::Tensor p = leaf({4, 2}), dense = leaf({3});
  GradAccumulator sums({dense, p}, kFloats);
  backward(dense, torch::ones({3}));
  const auto loss = torch::embedding(p, torch::tensor({1, 2}), -1, false, true).sum() + dense.sum();
  EXPECT_HAS(argument_error([&] { loss.backward(); }), "to_dense()");
  EXPECT_EQ(sums.micro_batches(), 1);
  p.mutable_grad().reset();
  dense.mutable_grad().reset();
  sums.assign_gradients();
  EXPECT_EQ(dense.grad().sum().item<float>(), 3);
  EXPECT_FALSE(p.grad().defined());
}

// A failed backward leaves gradients to torch. The next backward adds them.
TEST(GradAccumulator, ContinuesAfterAFailedBackward) {
  const torch::Tensor p = leaf({3}), q = leaf({3});
  GradAccumulator sums({p, q}, kFloats);
  const auto failing = q.clone();
  failing.register_hook([](torch::Tensor) -> torch::Tensor { throw std::runtime_error("no"); });
  EXPECT_ANY_THROW((p.sum() + failing.sum()).backward());
  EXPECT_EQ(sums.micro_batches(), 0);
  p.mutable_grad().reset();
  backward(p, torch::ones({3}));
  EXPECT_EQ(sums.micro_batches(), 1);
  sums.assign_gradients();
  EXPECT_EQ(p.grad().sum().item<float>(), 3);
}

TEST(GradAccumulator, CountsAFailedBackwardWhoseGradientsAreInTheSums) {
  for (const std::int64_t waiting : {std::int64_t{0}, std::int64_t{1} << 28})
    for (const bool same : {true, false}) {
      const torch::Tensor p = leaf({3}), q = leaf({3});
      GradAccumulatorOptions options = kFloats;
      GradAccumulator sums({p, q}, options.mean(true).max_waiting_bytes(waiting));
      const auto failing = q.clone();
      failing.register_hook([](torch::Tensor) -> torch::Tensor { throw std::runtime_error("no"); });
      for (int i = 0; i < 2; ++i) EXPECT_ANY_THROW((2 * p + failing).sum().backward());
      backward(same ? p : q, torch::full({3}, 5));
      EXPECT_EQ(sums.micro_batches(), 3) << waiting;
      sums.assign_gradients();
      EXPECT_EQ(p.grad()[0].item<float>(), same ? 3 : 4.f / 3) << waiting;
    }
}

// Gradients computed before the failure wait in the parameters, unless the accumulator added them at once.
TEST(GradAccumulator, DropsOrAddsTheGradientsOfAFailedBackward) {
  for (const std::int64_t waiting : {std::int64_t{0}, std::int64_t{1} << 28})
    for (const bool dropped : {true, false}) {
      const torch::Tensor p = leaf({3}), q = leaf({3});
      GradAccumulatorOptions options = kFloats;
      GradAccumulator sums({p, q}, options.max_waiting_bytes(waiting));
      const auto failing = q.clone();
      failing.register_hook([](torch::Tensor) -> torch::Tensor { throw std::runtime_error("no"); });
      EXPECT_ANY_THROW((3 * p + failing).sum().backward());
      EXPECT_EQ(p.grad().defined(), waiting > 0);
      if (dropped) {
        sums.reset();
        backward(p, torch::ones({3}));
      }
      sums.assign_gradients();
      EXPECT_EQ(p.grad().sum().item<float>(), dropped ? 3 : 9) << waiting;
      EXPECT_EQ(sums.micro_batches(), 0);
    }
}

}  // namespace
}  // namespace jitstep::tests
