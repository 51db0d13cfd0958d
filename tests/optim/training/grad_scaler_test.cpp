// Loss scaling with the numbers and errors of torch.amp.GradScaler.
#include <torch/nn/utils/clip_grad.h>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

// A parameter, and a loss whose gradient is `slope` for every element.
struct Slope {
  torch::Tensor p = torch::ones({20}).requires_grad_();
  AdamW optimizer{{p}, AdamWOptions(0.1)};

  torch::Tensor loss(double slope) {
    optimizer.zero_grad();
    return (p * slope).sum();
  }
  void set_lr(double lr) { optimizer.param_groups()[0].options().set_lr(lr); }
  std::int64_t steps() {
    return static_cast<ParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl())).step();
  }
};

void train(Slope& one, GradScaler& scaler, double slope) {
  scaler.scale(one.loss(slope)).backward();
  scaler.step(one.optimizer);
  scaler.update();
}

TEST(GradScaler, HasTorchsNumbers) {
  const GradScalerOptions options;
  EXPECT_EQ(options.init_scale(), 65536);
  EXPECT_EQ(options.growth_factor(), 2);
  EXPECT_EQ(options.backoff_factor(), 0.5);
  EXPECT_EQ(options.growth_interval(), 2000);
  EXPECT_EQ(GradScaler().get_scale(), 65536);
  EXPECT_TRUE(GradScaler().is_enabled());
}

TEST(GradScaler, TrainsAsWithoutScaling) {
  Slope one, other;
  GradScaler scaler;
  for (const double slope : {0.1, -3.0, 7.0}) {
    train(one, scaler, slope);
    other.loss(slope).backward();
    other.optimizer.step();
  }
  EXPECT_TRUE(torch::equal(one.p, other.p));
  EXPECT_TRUE(torch::equal(one.p.grad(), other.p.grad() * 65536)) << "the gradient is left scaled";
  EXPECT_FALSE(one.optimizer.grad_scale().defined() || one.optimizer.found_inf().defined());
}

TEST(GradScaler, BacksOffAfterAStepThatItSkipsAndGrowsAfterGoodOnes) {
  Slope one;
  GradScaler scaler(GradScalerOptions().init_scale(1024).growth_interval(2));
  const auto before = one.p.detach().clone();
  for (const double bad : {double(INFINITY), double(NAN)}) {
    train(one, scaler, bad);
    EXPECT_TRUE(torch::equal(one.p, before));
    EXPECT_EQ(one.steps(), 0);
  }
  EXPECT_EQ(scaler.get_scale(), 256);
  for (const double expected : {256., 512., 512., 1024.}) {
    train(one, scaler, 1);
    EXPECT_EQ(scaler.get_scale(), expected);
  }
  train(one, scaler, INFINITY);
  EXPECT_EQ(scaler.get_scale(), 512);
  EXPECT_EQ(one.steps(), 4);
}

TEST(GradScaler, UnscalesBeforeClipping) {
  Slope one, other;
  GradScaler scaler;
  for (int step = 0; step < 3; ++step) {
    scaler.scale(one.loss(3)).backward();
    scaler.unscale_(one.optimizer);
    EXPECT_TRUE(torch::equal(one.p.grad(), torch::full({20}, 3.0)));
    torch::nn::utils::clip_grad_norm_({one.p}, 1.0);
    scaler.step(one.optimizer);
    scaler.update();
    other.loss(3).backward();
    torch::nn::utils::clip_grad_norm_({other.p}, 1.0);
    other.optimizer.step();
  }
  EXPECT_TRUE(torch::equal(one.p, other.p));
}

TEST(GradScaler, SkipsTheStepIfUnscalingFoundInfinities) {
  Slope one;
  GradScaler scaler;
  scaler.scale(one.loss(INFINITY)).backward();
  scaler.unscale_(one.optimizer);
  one.p.mutable_grad().fill_(1);
  scaler.step(one.optimizer);
  scaler.update();
  EXPECT_EQ(one.steps(), 0);
  EXPECT_EQ(scaler.get_scale(), 32768);
}

TEST(GradScaler, AlsoDividesByTheOptimizersGradScaleAndRestoresIt) {
  Slope one, other;
  GradScaler scaler;
  const auto own = torch::full({}, 4.0);
  one.optimizer.set_grad_scale(own);
  train(one, scaler, 12);
  other.loss(3).backward();
  other.optimizer.step();
  EXPECT_TRUE(torch::equal(one.p, other.p));
  EXPECT_EQ(one.optimizer.grad_scale().item<float>(), 4);
}

TEST(GradScaler, RemovesItsTensorsWhenAStepFails) {
  Slope one;
  GradScaler scaler;
  scaler.scale(one.loss(1)).backward();
  one.set_lr(NAN);
  EXPECT_HAS(argument_error([&] { scaler.step(one.optimizer); }), "lr is nan");
  EXPECT_FALSE(one.optimizer.grad_scale().defined() || one.optimizer.found_inf().defined());
}

TEST(GradScaler, AFailedStepChangesNothing) {
  for (const bool unscaled : {false, true}) {
    Slope one, other, third;
    GradScaler scaler(GradScalerOptions().init_scale(1024).growth_interval(1));
    scaler.scale(one.loss(3)).backward();
    scaler.scale(third.loss(3)).backward();
    if (unscaled) scaler.unscale_(one.optimizer);
    one.set_lr(NAN);
    EXPECT_ANY_THROW(scaler.step(one.optimizer));
    scaler.step(third.optimizer);
    EXPECT_HAS(argument_error([&] { scaler.update(); }), "update() after a step() that threw");
    EXPECT_EQ(scaler.get_scale(), 1024);
    one.set_lr(0.1);
    scaler.step(one.optimizer);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 2048);
    other.loss(3).backward();
    other.optimizer.step();
    EXPECT_TRUE(torch::equal(one.p, other.p)) << unscaled;
  }
}

TEST(GradScaler, ContinuesWithoutAFailedStep) {
  Slope one;
  GradScaler scaler;
  scaler.scale(one.loss(1)).backward();
  one.set_lr(NAN);
  EXPECT_ANY_THROW(scaler.step(one.optimizer));
  scaler.update(scaler.get_scale());
  EXPECT_HAS(argument_error([&] { scaler.update(); }), "update() before any step()");
  one.set_lr(0.1);
  train(one, scaler, 1);
  EXPECT_EQ(one.steps(), 1);
}

TEST(GradScaler, NamesTheParameterOfAnInvalidGradient) {
  Tensors parameters = make_parameters();
  AdamW optimizer(parameters);
  set_gradients(parameters, 1);
  const torch::Tensor before = parameters[0].grad().clone();
  parameters[1].mutable_grad() = torch::ones({3}).to_sparse();
  GradScaler scaler;
  scaler.scale(torch::ones({}));
  for (const bool stepping : {true, false})
    EXPECT_HAS(
        argument_error([&] { stepping ? scaler.step(optimizer) : scaler.unscale_(optimizer); }),
        "the gradient of parameter 1 of group 0 (float32 [3]) is sparse");
  EXPECT_TRUE(torch::equal(parameters[0].grad(), before));
}

TEST(GradScaler, ServesSeveralOptimizersUntilTheUpdate) {
  Slope one, other;
  GradScaler scaler;
  scaler.scale(one.loss(1)).backward();
  scaler.scale(other.loss(INFINITY)).backward();
  scaler.step(one.optimizer);
  scaler.step(other.optimizer);
  scaler.update();
  EXPECT_EQ(one.steps(), 1);
  EXPECT_EQ(other.steps(), 0);
  EXPECT_EQ(scaler.get_scale(), 32768);
  scaler.update(128);
  EXPECT_EQ(scaler.get_scale(), 128);
}

TEST(GradScaler, DoesNothingWhenItIsOff) {
  Slope one, other;
  GradScaler scaler(GradScalerOptions().enabled(false));
  const auto loss = one.loss(2);
  EXPECT_TRUE(scaler.scale(loss).is_same(loss));
  loss.backward();
  scaler.unscale_(one.optimizer);
  scaler.step(one.optimizer);
  scaler.update();
  other.loss(2).backward();
  other.optimizer.step();
  EXPECT_TRUE(torch::equal(one.p, other.p));
  EXPECT_EQ(scaler.get_scale(), 1);
}

TEST(GradScaler, ContinuesFromAnArchive) {
  Slope one, other;
  const auto options = GradScalerOptions().init_scale(64).growth_interval(3);
  GradScaler scaler(options), fresh, used;
  train(one, scaler, INFINITY);
  train(one, scaler, 1);
  train(one, scaler, 1);
  used.scale(torch::ones({}));
  for (GradScaler* loaded : {&fresh, &used}) {
    copy_through_archive(scaler, *loaded);
    EXPECT_EQ(loaded->get_scale(), 32);
    train(other, *loaded, 1);
    EXPECT_EQ(loaded->get_scale(), 64) << "the third good step";
  }
  const GradScaler off(GradScalerOptions().enabled(false));
  EXPECT_HAS(argument_error([&] { copy_through_archive(off, fresh); }), "no number \"scale\"");
}

TEST(GradScaler, KeepsItsNumbersIfAnArchiveIsDamaged) {
  for (const std::int64_t tracker : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    torch::serialize::OutputArchive damaged;
    for (const char* name : {"scale", "growth_factor"}) damaged.write(name, c10::IValue(2.0));
    damaged.write("backoff_factor", c10::IValue(0.5));
    damaged.write("growth_interval", c10::IValue(std::int64_t{7}));
    damaged.write("_growth_tracker", c10::IValue(tracker));
    std::stringstream stream;
    damaged.save_to(stream);
    GradScaler scaler(GradScalerOptions().init_scale(64));
    scaler.scale(torch::ones({}));
    EXPECT_HAS(argument_error([&] { torch::load(scaler, stream); }), "_growth_tracker");
    EXPECT_EQ(scaler.get_scale(), 64);
  }
}

TEST(GradScaler, RejectsCallsInTheWrongOrder) {
  Slope one;
  GradScaler scaler;
  EXPECT_HAS(argument_error([&] { scaler.step(one.optimizer); }), "step() before any scale()");
  EXPECT_HAS(argument_error([&] { scaler.update(); }), "update() before any scale()");
  EXPECT_HAS(argument_error([&] { scaler.scale(torch::Tensor()); }),
             "scale() of an undefined tensor");
  scaler.scale(torch::ones({}));
  EXPECT_HAS(argument_error([&] { scaler.update(); }), "update() before any step()");
  EXPECT_HAS(argument_error([&] { scaler.step(one.optimizer); }), "no parameter");
  scaler.scale(one.loss(1)).backward();
  scaler.unscale_(one.optimizer);
  EXPECT_HAS(argument_error([&] { scaler.unscale_(one.optimizer); }), "unscale_() twice");
  scaler.step(one.optimizer);
  EXPECT_HAS(argument_error([&] { scaler.unscale_(one.optimizer); }), "unscale_() after step()");
  EXPECT_HAS(argument_error([&] { scaler.step(one.optimizer); }), "step() twice");
  scaler.update();
  EXPECT_NO_THROW(scaler.step(one.optimizer));
}

TEST(GradScaler, RejectsNumbersOutOfRangeAndUnscalingHalfGradients) {
  const auto error_for = [](const GradScalerOptions& options) {
    return argument_error([&] { GradScaler scaler(options); });
  };
  EXPECT_HAS(error_for(GradScalerOptions().init_scale(0)), "init_scale is 0");
  EXPECT_HAS(error_for(GradScalerOptions().init_scale(1e300)), "init_scale is 1e+300");
  EXPECT_HAS(error_for(GradScalerOptions().growth_factor(1)), "growth_factor is 1");
  EXPECT_HAS(error_for(GradScalerOptions().backoff_factor(1)), "backoff_factor is 1");
  EXPECT_HAS(error_for(GradScalerOptions().growth_interval(0)), "growth_interval is 0");
  Tensors parameters = make_parameters(torch::kFloat16);
  AdamW optimizer(parameters);
  set_gradients(parameters, 1);
  GradScaler scaler;
  scaler.scale(torch::ones({}));
  EXPECT_HAS(argument_error([&] { scaler.unscale_(optimizer); }), "float16 gradients");
  EXPECT_HAS(argument_error([&] { scaler.update(INFINITY); }), "the scale is inf");
  EXPECT_HAS(argument_error([&] { scaler.update(1e40); }), "the scale is 1e+40");
}

TEST(GradScaler, RecognizesAnOptimizerThatWasMoved) {
  const auto p = torch::zeros({3}).requires_grad_();
  SGD made({p}, SGDOptions(0.5));
  GradScaler scaler;
  scaler.scale(p.sum() * 2).backward();
  scaler.unscale_(made);
  SGD moved(std::move(made));
  scaler.step(moved);
  EXPECT_TRUE(p.equal(torch::full({3}, -1.0f)));
}

TEST(GradScaler, DoesNotTakeANewOptimizerForADestroyedOneAtItsAddress) {
  const auto p = torch::zeros({3}).requires_grad_();
  GradScaler scaler;
  scaler.scale(p.sum()).backward();
  for (int i = 0; i < 20; ++i) {  // the allocator soon reuses addresses
    const auto optimizer = std::make_unique<SGD>(std::vector<torch::Tensor>{p}, SGDOptions(0.5));
    EXPECT_NO_THROW(scaler.unscale_(*optimizer)) << i;
  }
}

TEST(GradScaler, AnOptimizerThatIsDestroyedAfterAFailedStepDoesNotBlockUpdates) {
  Slope one;
  GradScaler scaler;
  scaler.scale(one.loss(1)).backward();
  {
    AdamW failing({one.p}, AdamWOptions(0.1));
    failing.param_groups()[0].options().set_lr(NAN);
    EXPECT_THROW(scaler.step(failing), c10::Error);
    EXPECT_THROW(scaler.update(), c10::Error);
  }
  scaler.step(one.optimizer);
  EXPECT_NO_THROW(scaler.update());
}

}  // namespace
}  // namespace jitstep::tests
