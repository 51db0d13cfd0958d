// Layouts, sizes, groups and threads through torch's tensors.
#include <ATen/TensorIterator.h>
#include <c10/util/Exception.h>
#include <sys/wait.h>
#include <torch/nn/utils/clip_grad.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "optim/training.h"
#include "optim/working_threads.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
#define __tsan_acquire(address)
#define __tsan_release(address)
#endif

namespace jitstep::tests {
namespace {

using torch::Tensor;

// Steps `changed` and a contiguous copy of it with equal gradients. For a rule without sums, the elements must agree
// bit for bit.
void expect_layout_does_not_matter(const Tensor& changed, bool odd_gradients) {
  Tensor a = changed, b = changed.detach().clone(torch::MemoryFormat::Contiguous);
  a.requires_grad_();
  b.requires_grad_();
  AdamW one({a}, AdamWOptions(0.1)), other({b}, AdamWOptions(0.1));
  for (int step = 0; step < 3; ++step) {
    const Tensor g = torch::randn(b.sizes());
    b.mutable_grad() = g;
    a.mutable_grad() = odd_gradients && a.dim() > 1 ? g.transpose(0, 1).contiguous().transpose(0, 1)
                                                    : torch::empty_like(a).copy_(g);
    one.step();
    other.step();
  }
  EXPECT_TRUE(torch::equal(a.detach(), b.detach())) << changed.sizes() << " " << changed.strides();
}

TEST(Stepper, AnyLayoutGivesTheSameElements) {
  torch::manual_seed(1);
  for (bool odd_gradients : {false, true}) {
    expect_layout_does_not_matter(torch::randn({40, 30}).t(), odd_gradients);
    expect_layout_does_not_matter(
        torch::randn({4, 6, 9, 8}).contiguous(torch::MemoryFormat::ChannelsLast), odd_gradients);
    expect_layout_does_not_matter(torch::randn({50, 30}).slice(1, 3, 17), odd_gradients);
    expect_layout_does_not_matter(torch::randn({1001}).slice(0, 1), odd_gradients);
    expect_layout_does_not_matter(torch::randn({30, 20, 3}).select(2, 1), odd_gradients);
    expect_layout_does_not_matter(torch::randn({}), odd_gradients);
    expect_layout_does_not_matter(torch::randn({1, 1, 5, 1}), odd_gradients);
    expect_layout_does_not_matter(torch::randn({2, 2, 2, 2, 2, 2, 2, 2, 2, 2}), false);
  }
}

TEST(Stepper, EverySizeFollowsTorch) {
  for (std::int64_t n : {0, 1, 3, 4, 31, 32, 33, 255, 256, 257, 4095, 4096, 4097, 100000}) {
    Tensors ours = make_parameters(torch::kFloat64, {{n}}), theirs = clones(ours);
    AdamW a(ours);
    torch::optim::AdamW b(theirs);
    train(a, ours, 1, 3);
    train(b, theirs, 1, 3);
    expect_close(ours, theirs, 1e-12, 1e-12);
  }
}

// Sets torch's number of threads while it exists.
struct Threads {
  explicit Threads(int count) : before(torch::get_num_threads()) { torch::set_num_threads(count); }
  ~Threads() { torch::set_num_threads(before); }
  const int before;
};

TEST(Stepper, ThreadsDoNotMatter) {
  int workers = 0;
  const auto run = [&](int count) {
    const Threads threads(count);
    torch::manual_seed(2);
    Tensors parameters = make_parameters(torch::kFloat32, {{300000}, {513, 700}, {7}});
    LAMB optimizer(parameters, LAMBOptions(0.1).weight_decay(0.1).state("int4").max_grad_norm(1));
    train(optimizer, parameters, 1, 2);
    set_gradients(parameters, 3);
    workers = threads_that_work([&] { optimizer.step(); });
    return parameters;
  };
  const Tensors one = run(1);
  EXPECT_EQ(workers, 1);
  for (const int count : {2, 5}) {
    expect_equal(one, run(count));
    EXPECT_EQ(workers, count);
  }
}

TEST(Stepper, OneLargeTensorIsSteppedByTorchsThreads) {
  for (const char* codec : {"fp32", "int8"}) {
    Tensors parameters = make_parameters(torch::kFloat32, {{4 << 20}});
    AdamW optimizer(parameters, AdamWOptions(0.1).state(codec));
    train(optimizer, parameters, 1, 1);
    const Threads threads(2);
    EXPECT_EQ(threads_that_work([&] { optimizer.step(); }), 2) << codec;
  }
}

// Runs body(i) for i < count in threads of torch. ThreadSanitizer does not see that OpenMP starts and joins them.
void in_parallel(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  const auto indices = torch::arange(count);
  [[maybe_unused]] static char start, end;
  const auto run = [&](char** at, const std::int64_t* strides, std::int64_t n, std::int64_t) {
    __tsan_acquire(&start);
    for (std::int64_t i = 0; i < n; ++i)
      body(*reinterpret_cast<const std::int64_t*>(at[0] + i * strides[0]));
    __tsan_release(&end);
  };
  __tsan_release(&start);
  at::TensorIteratorConfig().add_const_input(indices).build().for_each(run, 1);
  __tsan_acquire(&end);
}

TEST(Stepper, AStepInsideAParallelRegionRunsInItsThread) {
  const Threads threads(2);
  Tensors inside, outside;
  std::vector<std::unique_ptr<AdamW>> optimizers;
  for (int i = 0; i < 4; ++i) {
    inside.push_back(make_parameters(torch::kFloat32, {{100000 + i}})[0]);
    optimizers.push_back(std::make_unique<AdamW>(Tensors{inside.back()}, AdamWOptions(0.1)));
  }
  outside = clones(inside);
  set_gradients(inside, 1);
  for (int i = 0; i < 4; ++i) outside[i].mutable_grad() = inside[i].grad().clone();
  std::atomic<int> stepped = 0;
  in_parallel(4, [&](std::int64_t i) {
    optimizers[i]->step();
    ++stepped;
  });
  EXPECT_EQ(stepped, 4);
  for (int i = 0; i < 4; ++i) AdamW({outside[i]}, AdamWOptions(0.1)).step();
  expect_equal(inside, outside);
}

TEST(Stepper, EachGroupHasItsOwnHyperparameters) {
  Tensors ours = make_parameters(torch::kFloat64, {{40}, {50}, {60}}), theirs = clones(ours);
  std::vector<torch::optim::OptimizerParamGroup> a_groups, b_groups;
  for (int i = 0; i < 3; ++i) {
    a_groups.emplace_back(Tensors{ours[i]},
                          std::make_unique<AdamWOptions>(AdamWOptions(0.1 * (i + 1))));
    b_groups.emplace_back(Tensors{theirs[i]}, std::make_unique<torch::optim::AdamWOptions>(
                                                  torch::optim::AdamWOptions(0.1 * (i + 1))));
  }
  AdamW a(a_groups);
  torch::optim::AdamW b(b_groups);
  train(a, ours, 1, 5);
  train(b, theirs, 1, 5);
  expect_close(ours, theirs, 1e-12, 1e-12);
}

TEST(Stepper, ClippingAcrossKernelsFollowsTorch) {
  // Formats by size put the two parameters into different kernels. The norm covers both.
  Tensors ours = make_parameters(torch::kFloat32, {{5000}, {10}}), theirs = clones(ours);
  SGD a(ours, SGDOptions(0.1).momentum(0.9).state("int8").max_grad_norm(0.25));
  torch::optim::SGD b(theirs, torch::optim::SGDOptions(0.1).momentum(0.9));
  set_gradients(ours, 1);
  set_gradients(theirs, 1);
  torch::nn::utils::clip_grad_norm_(theirs, 0.25);
  a.step();
  b.step();
  expect_close(ours, theirs, 1e-6, 1e-7);
}

TEST(Stepper, OneGroupMayBeClippedAndAnotherNot) {
  for (const char* rule : {"lamb", "adamw"}) {
    SCOPED_TRACE(rule);
    Tensors parameters = make_parameters(torch::kFloat32, {{300}, {200}});
    const auto spec = [&](double norm) {
      return "{\"rule\": \"" + std::string(rule) +
             "\", \"options\": {\"lr\": 0.1, \"max_grad_norm\": " + std::to_string(norm) + "}}";
    };
    // Both groups together must give the results of each alone, with gradients clipped by hand or not at all.
    Tensors alone = clones(parameters);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(Tensors{parameters[0]},
                        std::make_unique<GenericOptions>(GenericOptions(0.1).max_grad_norm(0.5)));
    groups.emplace_back(Tensors{parameters[1]});
    Optimizer both(rule, groups, GenericOptions(0.1));
    auto first = Optimizer::from_spec({alone[0]}, spec(0)),
         second = Optimizer::from_spec({alone[1]}, spec(0));
    for (int step = 1; step <= 3; ++step) {
      set_gradients(parameters, step);
      set_gradients(alone, step);
      const double norm =
          torch::sqrt(alone[0].grad().square().sum() + alone[1].grad().square().sum())
              .item<double>();
      alone[0].mutable_grad() = alone[0].grad() * (0.5 / (norm + 1e-6));
      both.step();
      first->step();
      second->step();
    }
    expect_close(parameters, alone, 1e-5, 1e-6);
  }
}

TEST(Stepper, ParametersThatAlternateAreSteppedAsAlone) {
  Tensors together = make_parameters(torch::kFloat32, {{300}, {500}}), alone = clones(together);
  AdamW both(together, AdamWOptions(0.1));
  AdamW first({alone[0]}, AdamWOptions(0.1)), second({alone[1]}, AdamWOptions(0.1));
  for (int step = 0; step < 20; ++step) {
    const int turn = step % 2;
    set_gradients(together, step);
    set_gradients(alone, step);
    together[1 - turn].mutable_grad() = torch::Tensor();
    both.step();
    (turn == 0 ? first : second).step();
  }
  expect_equal(together, alone);
}

// torch's threads do not survive fork(), and the child must not wait for them. (It calls no torch function that would.)
TEST(Stepper, AChildOfForkStepsAsItsParentWould) {
  const Threads threads(2);
  Tensors parameters = make_parameters(torch::kFloat32, {{300000}}), expected = clones(parameters);
  AdamW optimizer(parameters, AdamWOptions(0.1)), other(expected, AdamWOptions(0.1));
  train(optimizer, parameters, 1, 2);
  train(other, expected, 1, 3);
  set_gradients(parameters, 3);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool good = false;
    try {
      optimizer.step();
      good = std::memcmp(parameters[0].const_data_ptr(), expected[0].const_data_ptr(),
                         parameters[0].nbytes()) == 0;
    } catch (...) {
    }
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Stepper, AGradientMayHaveOtherStridesThanBefore) {
  Tensors changing = make_parameters(torch::kFloat32, {{40, 30}}), steady = clones(changing);
  AdamW one(changing, AdamWOptions(0.1)), other(steady, AdamWOptions(0.1));
  for (int step = 0; step < 6; ++step) {
    const Tensor g = torch::randn({40, 30});
    steady[0].mutable_grad() = g;
    changing[0].mutable_grad() = step % 2 == 0 ? g.clone() : g.t().contiguous().t();
    if (step == 4) changing[0].mutable_grad() = torch::empty({40, 60}).slice(1, 0, 60, 2).copy_(g);
    one.step();
    other.step();
    expect_equal(changing, steady);
  }
}

TEST(Stepper, ANormBelowTheLimitChangesNoBit) {
  for (const char* codec : {"fp32", "int8"}) {
    Tensors clipped = make_parameters(torch::kFloat32, {{5000}, {10, 3}}), free = clones(clipped);
    AdamW one(clipped, AdamWOptions(0.1).state(codec).max_grad_norm(1e6)),
        other(free, AdamWOptions(0.1).state(codec));
    train(one, clipped, 1, 3);
    train(other, free, 1, 3);
    expect_equal(clipped, free);
  }
}

TEST(Stepper, AScaledLossGivesTheSameStep) {
  Tensors scaled = make_parameters(torch::kFloat32, {{5000}, {10, 3}}), plain = clones(scaled);
  AdamW one(scaled, AdamWOptions(0.1).grad_scale(1024).max_grad_norm(0.5)),
      other(plain, AdamWOptions(0.1).max_grad_norm(0.5));
  for (int step = 1; step <= 3; ++step) {
    set_gradients(scaled, step);
    set_gradients(plain, step);
    for (const auto& p : scaled) p.mutable_grad() = p.grad() * 1024;
    one.step();
    other.step();
  }
  expect_equal(scaled, plain);
}

TEST(Stepper, AutogradSeesThatAParameterHasChanged) {
  auto p = torch::ones({3}).requires_grad_();
  AdamW optimizer({p}, AdamWOptions(0.1));
  auto loss = (p * p).sum();
  loss.backward({}, true);
  optimizer.step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(Stepper, StochasticWeightsAreRepeatableAndFollowTheSeed) {
  const auto run = [](std::uint64_t seed) {
    Tensors parameters = {torch::ones({10000}, torch::kBFloat16).requires_grad_()};
    AdamW optimizer(parameters, AdamWOptions(1e-4).weights("stochastic").seed(seed));
    for (int step = 0; step < 20; ++step) {
      parameters[0].mutable_grad() = torch::ones({10000}, torch::kBFloat16);
      optimizer.step();
    }
    return parameters;
  };
  const Tensors one = run(1);
  expect_equal(one, run(1));
  EXPECT_FALSE(torch::equal(one[0], run(2)[0]));
  // Rounding to nearest would never move a weight of 1 by a step of 1e-4.
  EXPECT_NEAR(one[0].to(torch::kFloat64).mean().item<double>(), 1 - 20 * 1e-4, 2e-4);
}

TEST(Stepper, ANonFiniteGradientAffectsOnlyItsElement) {
  for (const char* codec : {"fp32", "int8", "int4"}) {
    Tensors parameters = {torch::ones({5000}).requires_grad_()};
    AdamW optimizer(parameters, AdamWOptions(0.1).state(codec));
    for (int step = 0; step < 3; ++step) {
      auto g = torch::ones({5000});
      if (step == 1) g[17] = std::numeric_limits<float>::quiet_NaN();
      parameters[0].mutable_grad() = g;
      optimizer.step();
    }
    const auto finite = torch::isfinite(parameters[0]);
    EXPECT_EQ(finite.sum().item<std::int64_t>(), 4999) << codec;
    EXPECT_FALSE(finite[17].item<bool>()) << codec;
  }
}

}  // namespace
}  // namespace jitstep::tests
