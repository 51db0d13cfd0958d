// Defects of other optimizer libraries. The comment above each test describes the defect, and the test shows that
// jitstep does not have it. tests/jit/engine/other_libraries_defects_test.cpp has those that need a GPU. Two defects have no
// test: torchao chooses formats by the size of the local shard, and Apex ignores master weights of bfloat16.
#include "optim/counted_memory.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

const std::vector<const char*> kQuantized = {"bf16", "int8", "int4"};

// bitsandbytes: a NaN or infinite gradient zeroed the history of its element and was then ignored silently.
TEST(DefectsOfOtherLibraries, ANonFiniteGradientIsVisibleAndErasesNoHistory) {
  for (const char* codec : kQuantized)
    for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      const auto p = leaf(torch::ones({4096})), q = leaf(torch::ones({4096}));
      AdamW one({p}, AdamWOptions(0.1).state(codec)), other({q}, AdamWOptions(0.1).state(codec));
      for (int step = 0; step < 4; ++step) {
        auto g = torch::randn({4096});
        g[17] = 0;
        q.mutable_grad() = g.clone();
        if (step == 1) g[17] = bad;
        p.mutable_grad() = g;
        one.step();
        other.step();
      }
      EXPECT_FALSE(std::isfinite(p[17].item<float>())) << codec;
      const auto rest = torch::arange(4096).ne(17);
      EXPECT_TRUE(torch::equal(p.index({rest}), q.index({rest}))) << codec << " " << bad;
    }
}

// bitsandbytes: 32-bit momentum and RMSprop had no kernel for bfloat16 gradients.
TEST(DefectsOfOtherLibraries, EveryRuleSupportsEveryDtype) {
  for (const char* rule : {"sgd", "adam", "adamw", "lamb"})
    for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      const Tensors parameters = make_parameters(dtype, {{300}});
      const auto before = parameters[0].detach().clone();
      GenericOptions options(0.1);
      if (std::string(rule) == "sgd") options.set("momentum", 0.9);
      Optimizer optimizer(rule, parameters, options);
      train(optimizer, parameters, 1, 2);
      EXPECT_TRUE(torch::isfinite(parameters[0]).all().item<bool>()) << rule << dtype;
      EXPECT_FALSE(torch::equal(parameters[0], before)) << rule << dtype;
    }
}

// bitsandbytes: amsgrad=True was accepted and ignored.
TEST(DefectsOfOtherLibraries, AmsgradWorksWithEveryCodec) {
  for (const char* codec : kQuantized) {
    const auto p = leaf(torch::zeros({4096}));
    AdamW optimizer({p}, AdamWOptions(0.1).amsgrad(true).betas({0.9, 0.5}).state(codec));
    torch::Tensor most;
    for (int step = 0; step < 12; ++step) {
      p.mutable_grad() = torch::full({4096}, step == 0 ? 10.0 : 0.1);
      optimizer.step();
      if (step == 0) most = state_of<AdamWParamState>(optimizer, p).max_exp_avg_sq().clone();
    }
    EXPECT_GT(most.min().item<float>(), 10) << codec;
    EXPECT_TRUE(torch::all(state_of<AdamWParamState>(optimizer, p).max_exp_avg_sq() >= most * 0.9)
                    .item<bool>());
    EXPECT_LT(state_of<AdamWParamState>(optimizer, p).exp_avg_sq().max().item<float>(), 1) << codec;
  }
}

// bitsandbytes: it replaced p.data by a contiguous copy, which broke channels_last and flat buffers.
TEST(DefectsOfOtherLibraries, AParameterKeepsItsStorageAndItsLayout) {
  const auto flat = torch::randn({5 * 4 * 3 * 3 + 7});
  const auto p = leaf(flat.slice(0, 7).view({5, 3, 3, 4}).permute({0, 3, 1, 2}));
  ASSERT_TRUE(p.is_contiguous(torch::MemoryFormat::ChannelsLast));
  const auto strides = p.strides().vec();
  const void* const memory = p.const_data_ptr();
  const auto before = flat.clone();
  AdamW optimizer({p}, AdamWOptions(0.1));
  train(optimizer, {p}, 1, 2);
  EXPECT_EQ(p.strides().vec(), strides);
  EXPECT_EQ(p.const_data_ptr(), memory);
  EXPECT_TRUE(torch::equal(flat.slice(0, 0, 7), before.slice(0, 0, 7)));
  EXPECT_TRUE(torch::all(flat.slice(0, 7) != before.slice(0, 7)).item<bool>());
}

// torchao: stochastic rounding drew from torch's global generator.
TEST(DefectsOfOtherLibraries, StochasticRoundingLeavesTorchsGeneratorAlone) {
  const auto run = [](std::uint64_t torch_seed) {
    const auto p = leaf(torch::ones({1000}, torch::kBFloat16));
    AdamW optimizer({p}, AdamWOptions(1e-3).weights("stochastic").seed(4));
    torch::manual_seed(torch_seed);
    for (int step = 0; step < 5; ++step) {
      p.mutable_grad() = torch::ones({1000}, torch::kBFloat16);
      optimizer.step();
    }
    const auto drawn = torch::rand({3});
    torch::manual_seed(torch_seed);
    EXPECT_TRUE(torch::equal(drawn, torch::rand({3})));
    return p;
  };
  EXPECT_TRUE(torch::equal(run(1), run(2)));
}

// Apex: an option that could not be honored was ignored. jitstep throws.
TEST(DefectsOfOtherLibraries, AnUnknownWeightFormatIsRejected) {
  const Tensors parameters = make_parameters(torch::kBFloat16);
  EXPECT_HAS(argument_error([&] { AdamW(parameters, AdamWOptions().weights("master_weights")); }),
             "native");
  EXPECT_HAS(argument_error([&] {
               Optimizer("adamw", parameters, GenericOptions().set("master_weights", true));
             }),
             "has no option");
}

// Apex, Transformer Engine, DeepSpeed: one step number per group, which is wrong for a parameter whose first gradient
// comes late.
TEST(DefectsOfOtherLibraries, ALateParameterHasItsOwnBiasCorrection) {
  for (const char* rule : {"adam", "adamw", "lamb"}) {
    Tensors parameters = make_parameters(torch::kFloat32, {{50}, {60}}), alone = clones(parameters);
    Optimizer optimizer(rule, parameters, GenericOptions(0.1));
    Optimizer late(rule, {alone[1]}, GenericOptions(0.1));
    for (int step = 1; step <= 6; ++step) {
      set_gradients(parameters, step);
      alone[1].mutable_grad() = parameters[1].grad().clone();
      if (step > 3) late.step();
      if (step <= 3) parameters[1].mutable_grad() = torch::Tensor();
      optimizer.step();
    }
    EXPECT_TRUE(torch::equal(parameters[1], alone[1])) << rule;
  }
}

// DeepSpeed: with mixed dtypes the shared step number advanced once for each dtype.
TEST(DefectsOfOtherLibraries, MixedDtypesCountEachStepOnce) {
  Tensors mixed = {leaf(torch::randn({40})), leaf(torch::randn({40}, torch::kBFloat16)),
                   leaf(torch::randn({40}, torch::kFloat64))};
  Tensors alone = clones(mixed);
  AdamW optimizer(mixed, AdamWOptions(0.1));
  train(optimizer, mixed, 1, 3);
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    EXPECT_EQ(state_of<AdamWParamState>(optimizer, mixed[i]).step(), 3);
    AdamW single({alone[i]}, AdamWOptions(0.1));
    for (int step = 1; step <= 3; ++step) {
      set_gradients(mixed, step);  // sets all gradients, as above
      alone[i].mutable_grad() = mixed[i].grad().clone();
      single.step();
    }
    EXPECT_TRUE(torch::equal(alone[i], mixed[i])) << i;
  }
}

// flashoptim, torchao: unquantized state had the parameter's bfloat16.
TEST(DefectsOfOtherLibraries, UnquantizedStateOfLowPrecisionParametersIsFloat32) {
  for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
    const auto small = leaf(torch::ones({100}, dtype)), large = leaf(torch::ones({5000}, dtype));
    AdamW coded({small}, AdamWOptions().state("int8")), plain({large}, AdamWOptions());
    train(coded, {small}, 1, 1);
    train(plain, {large}, 1, 1);
    EXPECT_EQ(state_of<AdamWParamState>(coded, small).exp_avg().scalar_type(), torch::kFloat32);
    EXPECT_EQ(state_of<AdamWParamState>(plain, large).exp_avg_sq().scalar_type(), torch::kFloat32);
  }
}

// Transformer Engine: moments below 32 bits needed float temporaries in every step.
TEST(DefectsOfOtherLibraries, AStepAllocatesNoTensors) {
  for (const char* codec : kQuantized) {
    Tensors parameters = make_parameters(torch::kBFloat16, {{5000}, {3}});
    LAMB optimizer(parameters, LAMBOptions(0.1).state(codec).max_grad_norm(1));
    train(optimizer, parameters, 1, 2);
    const CountedMemory memory;
    optimizer.step();
    EXPECT_EQ(memory.count, 0) << codec;
  }
}

// COAT: the kernel's block size was a constant, whatever the options were.
// Each element is the largest one of its block, so its code is exact. Adjacent blocks differ by a factor of 3 or more,
// so that a scale for more elements than these would round most of them.
TEST(DefectsOfOtherLibraries, TheKernelUsesTheBlockSizeOfTheOptions) {
  for (const int block : {64, 128, 256}) {
    const auto p = leaf(torch::zeros({4096})), q = leaf(torch::zeros({4096}));
    const auto codec = R"({"codec": "int8", "block": )" + std::to_string(block) + "}";
    AdamW coded({p}, AdamWOptions(0.1).state(codec)), exact({q}, AdamWOptions(0.1));
    const auto g = torch::empty({4096 / block, block});
    for (int i = 0; i < 4096 / block; ++i) g[i].fill_(std::pow(3.0, i % 5));
    for (int step = 0; step < 2; ++step) {
      p.mutable_grad() = g.flatten().clone();
      q.mutable_grad() = g.flatten().clone();
      coded.step();
      exact.step();
    }
    const auto &ours = state_of<AdamWParamState>(coded, p),
               &theirs = state_of<AdamWParamState>(exact, q);
    EXPECT_TRUE(torch::allclose(ours.exp_avg(), theirs.exp_avg(), 1e-5, 0)) << block;
    EXPECT_TRUE(torch::allclose(ours.exp_avg_sq(), theirs.exp_avg_sq(), 1e-5, 0)) << block;
    const auto largest = theirs.exp_avg().view({-1, block}).amax(1);
    EXPECT_EQ(ours.meta("m").numel(), 4096 / block * 4);
    EXPECT_TRUE(torch::allclose(ours.meta("m").view(torch::kFloat32), largest, 1e-5, 0)) << block;
  }
}

// COAT, lpmm: g * g was computed in the gradient's 16 bits and underflowed.
TEST(DefectsOfOtherLibraries, SquaresOfHalfGradientsDoNotUnderflow) {
  for (const char* codec : {"fp32", "int8", "int4"}) {
    const auto p = leaf(torch::zeros({4096}, torch::kFloat16));
    AdamW optimizer({p}, AdamWOptions(0.1).eps(1e-12).state(codec));
    p.mutable_grad() = torch::full({4096}, 1e-5, torch::kFloat16);
    optimizer.step();
    EXPECT_GT(state_of<AdamWParamState>(optimizer, p).exp_avg_sq().min().item<float>(), 0) << codec;
    EXPECT_NEAR(p[0].item<double>(), -0.1, 1e-3) << codec;
  }
}

// lpmm: threads of a partial last block returned before its barrier.
TEST(DefectsOfOtherLibraries, APartialBlockEqualsThatOfAPaddedTensor) {
  for (const char* codec : kQuantized)
    for (const std::int64_t n : {255, 257, 513, 4095, 4097, 4223}) {
      const auto whole = torch::zeros({8192});
      whole.slice(0, 0, n).copy_(torch::randn({n}));
      const auto p = leaf(whole.slice(0, 0, n).clone()), q = leaf(whole);
      const auto options = AdamWOptions(0.1).state(codec).min_quantized_size(0);
      AdamW ragged({p}, options), padded({q}, options);
      for (int step = 0; step < 3; ++step) {
        auto g = torch::zeros({8192});
        g.slice(0, 0, n).copy_(torch::randn({n}));
        p.mutable_grad() = g.slice(0, 0, n).clone();
        q.mutable_grad() = g;
        ragged.step();
        padded.step();
      }
      EXPECT_TRUE(torch::equal(p, q.slice(0, 0, n))) << codec << " " << n;
    }
}

// torch's fused kernels: a gradient or state with other strides than the parameter caused an error.
TEST(DefectsOfOtherLibraries, StridesNeedNotMatch) {
  const auto values = torch::randn({4, 6, 5, 3}), g = torch::randn({4, 6, 5, 3});
  const auto p = leaf(values.contiguous(torch::MemoryFormat::ChannelsLast));
  const auto q = leaf(values.clone());
  AdamW one({p}, AdamWOptions(0.1)), other({q}, AdamWOptions(0.1));
  for (const auto& [parameter, optimizer] : {std::pair(p, &one), std::pair(q, &other)}) {
    auto state = std::make_unique<AdamWParamState>();
    state->step(2).exp_avg(torch::ones_like(values)).exp_avg_sq(torch::ones_like(values));
    optimizer->state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    parameter.mutable_grad() = g;
    optimizer->step();
  }
  EXPECT_TRUE(torch::equal(p, q));
}

// bitsandbytes: decoupled decay came after the update. torch's comes before it.
TEST(DefectsOfOtherLibraries, DecayComesBeforeTheUpdateByDefault) {
  const auto run = [](const AdamWOptions& options) {
    const auto p = leaf(torch::full({1}, 2.0, torch::kFloat64));
    p.mutable_grad() = torch::ones({1}, torch::kFloat64);
    AdamW optimizer({p}, options);
    optimizer.step();
    return p.item<double>();
  };
  const auto options = AdamWOptions(0.1).weight_decay(0.5).eps(0);
  EXPECT_NEAR(run(options), 2 * (1 - 0.1 * 0.5) - 0.1, 1e-14);
  EXPECT_NEAR(run(AdamWOptions(options).decay(AdamWOptions::Decay::after)),
              (2 - 0.1) * (1 - 0.1 * 0.5), 1e-14);
}

// bitsandbytes, lpmm: a block of zeros was divided by its largest magnitude, which is zero.
TEST(DefectsOfOtherLibraries, ABlockOfZerosStaysZero) {
  for (const char* codec : kQuantized) {
    const auto p = leaf(torch::ones({4096}));
    AdamW optimizer({p}, AdamWOptions(0.1).weight_decay(0).state(codec));
    for (int step = 0; step < 3; ++step) {
      auto g = torch::zeros({4096});
      if (step == 1) g.slice(0, 0, 256).fill_(1);
      p.mutable_grad() = g;
      optimizer.step();
    }
    const auto zeros = torch::zeros({3840});
    EXPECT_TRUE(torch::equal(p.slice(0, 256), torch::ones({3840}))) << codec;
    EXPECT_TRUE(
        torch::equal(state_of<AdamWParamState>(optimizer, p).exp_avg().slice(0, 256), zeros))
        << codec;
    EXPECT_TRUE(
        torch::isfinite(state_of<AdamWParamState>(optimizer, p).exp_avg_sq()).all().item<bool>())
        << codec;
    EXPECT_TRUE(torch::all(p.slice(0, 0, 256) < 1).item<bool>()) << codec;
  }
}

}  // namespace
}  // namespace jitstep::tests
