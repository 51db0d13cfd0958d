// Slots that options add or remove in training: the residual of the weights must not change.
#include <sstream>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

using Formats = testing::TestWithParam<std::tuple<const char*, torch::Dtype>>;

class LateSlots : public Formats {
 protected:
  static const char* format() { return std::get<0>(GetParam()); }
  static bool is_exact() {
    return format() == std::string("master") || format() == std::string("split16");
  }
  static SGDOptions options() { return SGDOptions(0x1p-8).weights(format()); }

  static Tensors parameters() {
    Tensors all = make_parameters(std::get<1>(GetParam()), {{70, 60}, {257}, {}, {0}});
    all.push_back(torch::randn({30, 20}, all[0].scalar_type()).t().set_requires_grad(true));
    return all;
  }

  // A step at a rate of 0 does not change the weights, as far as the format holds them.
  static void expect_same_weights(Optimizer& optimizer, const Tensors& p, const Tensors& before) {
    static_cast<Options&>(optimizer.param_groups()[0].options()).set_lr(0);
    train(optimizer, p, 9, 9);
    if (is_exact())
      expect_equal(optimizer.fp32_weights(), before);
    else
      expect_close(optimizer.fp32_weights(), before, 0x1p-15, 1e-9);
  }
};

SGDOptions& options_of(SGD& optimizer) {
  return static_cast<SGDOptions&>(optimizer.param_groups()[0].options());
}

TEST_P(LateSlots, DoNotChangeTheWeights) {
  const Tensors p = parameters();
  SGD optimizer(p, options());
  train(optimizer, p, 1, 3);
  const Tensors before = optimizer.fp32_weights();
  options_of(optimizer).momentum(0.9);
  expect_same_weights(optimizer, p, before);
}

TEST_P(LateSlots, ThatGoAndComeBackDoNotChangeTheWeights) {
  const Tensors p = parameters();
  SGD optimizer(p, options().momentum(0.9));
  train(optimizer, p, 1, 3);
  options_of(optimizer).momentum(0);
  train(optimizer, p, 4, 5);
  options_of(optimizer).momentum(0.5);
  const Tensors before = optimizer.fp32_weights();
  expect_same_weights(optimizer, p, before);
}

TEST_P(LateSlots, OfRulesWithOtherSlotsDoNotChangeTheWeights) {
  const Tensors p = parameters();
  AdamW optimizer(p, AdamWOptions(0x1p-8).weight_decay(0).weights(format()));
  for (const bool amsgrad : {false, true, false}) {
    static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).amsgrad(amsgrad).lr(0x1p-8);
    train(optimizer, p, 1, 2);
  }
  const Tensors before = optimizer.fp32_weights();
  static_cast<AdamWOptions&>(optimizer.param_groups()[0].options()).amsgrad(true);
  expect_same_weights(optimizer, p, before);
}

TEST_P(LateSlots, TrainLikeFloat32InExactFormats) {
  if (!is_exact()) GTEST_SKIP() << "rounds";
  const Tensors p = parameters();
  Tensors wide;
  for (const torch::Tensor& one : p)
    wide.push_back(one.detach().to(torch::kFloat32).set_requires_grad(true));
  SGD ours(p, options()), floats(wide, SGDOptions(0x1p-8));
  int step = 1;
  for (const double momentum : {0.0, 0.9, 0.0, 0.5}) {
    for (SGD* const one : {&ours, &floats}) options_of(*one).momentum(momentum).dampening(0.25);
    for (const int last = step + 2; step < last; ++step) {
      set_gradients(p, step);
      for (std::size_t i = 0; i < p.size(); ++i)
        wide[i].mutable_grad() = p[i].grad().to(torch::kFloat32);
      ours.step();
      floats.step();
    }
  }
  Tensors expected;
  for (const torch::Tensor& one : wide) expected.push_back(one.detach());
  expect_equal(ours.fp32_weights(), expected);
}

TEST_P(LateSlots, FromAnArchiveDoNotChangeTheWeights) {
  const Tensors p = parameters();
  SGD optimizer(p, options());
  train(optimizer, p, 1, 3);
  const Tensors before = optimizer.fp32_weights();
  options_of(optimizer).momentum(0.9);
  for (const bool skipped : {false, true}) {  // in the second run the slots exist, at their step 0
    if (skipped) {
      set_gradients(p, 4);
      optimizer.set_found_inf(torch::ones({}));
      optimizer.step();
      optimizer.set_found_inf({});
    }
    expect_equal(optimizer.fp32_weights(), before);
    const Tensors q = clones(p);
    SGD loaded(q, options()), again(q, options());
    copy_through_archive(optimizer, loaded);
    expect_equal(loaded.fp32_weights(), before);
    copy_through_archive(loaded, again);
    expect_equal(again.fp32_weights(), before);
    expect_same_weights(again, q, before);
  }
}

TEST_P(LateSlots, OfAFailedStepDoNotChangeTheWeights) {
  Tensors p = parameters();
  p.push_back(torch::ones({5}, p[0].scalar_type()).set_requires_grad(true));
  SGD optimizer(p, options());
  train(optimizer, p, 1, 3);
  const Tensors before = optimizer.fp32_weights();
  options_of(optimizer).momentum(0.9);
  auto wrong = std::make_unique<SGDParamState>();
  wrong->momentum_buffer(torch::zeros({3}));
  wrong->step() = 1;
  optimizer.state()[p.back().unsafeGetTensorImpl()] = std::move(wrong);
  EXPECT_HAS(argument_error([&] { train(optimizer, p, 4, 4); }), "shape");
  optimizer.state().erase(p.back().unsafeGetTensorImpl());
  Tensors now = optimizer.fp32_weights();
  now.pop_back();
  expect_equal(now, Tensors(before.begin(), before.end() - 1));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, LateSlots,
    testing::Values(std::tuple{"master", torch::kBFloat16}, std::tuple{"split16", torch::kBFloat16},
                    std::tuple{"split8", torch::kBFloat16}, std::tuple{"kahan", torch::kBFloat16},
                    std::tuple{"master", torch::kFloat16}, std::tuple{"split8", torch::kFloat16}),
    [](const auto& test) {
      const bool half = std::get<1>(test.param) == torch::kFloat16;
      return std::string(std::get<0>(test.param)) + (half ? "_float16" : "_bfloat16");
    });

}  // namespace
}  // namespace jitstep::tests
