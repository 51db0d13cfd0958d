// A program changed the namespace of its optimizer, but not that of a cast in another file.
#include <cmath>

#include "optim/training.h"

namespace jitstep::tests {
namespace {

namespace torchs = torch::optim;

// Reads an option of jitstep through torch's class, and writes it there.
template <class Ours, class Torchs, class T>
void is_one(T& (Ours::*ours)() noexcept, T& (Torchs::*torchs)() noexcept, const T& value) {
  std::unique_ptr<torchs::OptimizerOptions> options = std::make_unique<Ours>(0.25);
  auto& mine = static_cast<Ours&>(*options);
  auto& cast = static_cast<Torchs&>(*options);
  EXPECT_EQ(&(mine.*ours)(), &(cast.*torchs)());
  EXPECT_EQ((mine.*ours)(), (cast.*torchs)());
  (cast.*torchs)() = value;
  EXPECT_EQ((mine.*ours)(), value);
}

#define IS_ONE(name, option, ...)                                      \
  is_one<name##Options, torchs::name##Options>(&name##Options::option, \
                                               &torchs::name##Options::option, __VA_ARGS__)

TEST(ForgottenCast, ToTorchsClassOfTheSameNameReadsAndWritesTheOptions) {
  const auto betas = std::make_tuple(0.5, 0.75);
  IS_ONE(Adam, lr, 0.5), IS_ONE(Adam, betas, betas), IS_ONE(Adam, eps, 0.5);
  IS_ONE(Adam, weight_decay, 0.5), IS_ONE(Adam, amsgrad, true);
  IS_ONE(AdamW, lr, 0.5), IS_ONE(AdamW, betas, betas), IS_ONE(AdamW, eps, 0.5);
  IS_ONE(AdamW, weight_decay, 0.5), IS_ONE(AdamW, amsgrad, true);
  IS_ONE(SGD, lr, 0.5), IS_ONE(SGD, momentum, 0.5), IS_ONE(SGD, dampening, 0.5);
  IS_ONE(SGD, weight_decay, 0.5), IS_ONE(SGD, nesterov, true);
  IS_ONE(RMSprop, lr, 0.5), IS_ONE(RMSprop, alpha, 0.5), IS_ONE(RMSprop, eps, 0.5);
  IS_ONE(RMSprop, weight_decay, 0.5), IS_ONE(RMSprop, momentum, 0.5),
      IS_ONE(RMSprop, centered, true);
  IS_ONE(Adagrad, lr, 0.5), IS_ONE(Adagrad, lr_decay, 0.5), IS_ONE(Adagrad, weight_decay, 0.5);
  IS_ONE(Adagrad, initial_accumulator_value, 0.5), IS_ONE(Adagrad, eps, 0.5);
}

TEST(ForgottenCast, SetsTheOptionsOfTheNextStep) {
  const Tensors parameters = make_parameters(), expected = clones(parameters);
  AdamW optimizer(parameters, AdamWOptions(0.01).clipping_threshold(0.5)),
      reference(expected, AdamWOptions(0.01).clipping_threshold(0.5));
  train(optimizer, parameters, 1, 2);
  train(reference, expected, 1, 2);
  static_cast<torchs::AdamWOptions&>(optimizer.param_groups()[0].options())
      .lr(0.125)
      .betas({0.5, 0.75})
      .amsgrad(true);
  static_cast<AdamWOptions&>(reference.param_groups()[0].options())
      .lr(0.125)
      .betas({0.5, 0.75})
      .amsgrad(true);
  train(optimizer, parameters, 3, 4);
  train(reference, expected, 3, 4);
  expect_equal(parameters, expected);
}

// torch has no class of this name. The step must not use options that the cast corrupted.
template <class Torchs>
void is_noticed(Optimizer& optimizer, const Tensors& parameters,
                const std::function<void(Torchs&)>& write) {
  train(optimizer, parameters, 1, 1);
  const Tensors before = clones(parameters);
  auto& cast = static_cast<Torchs&>(optimizer.param_groups()[0].options());
  EXPECT_TRUE(std::isnan(cast.lr()));
  write(cast);
  set_gradients(parameters, 2);
  const std::string message = argument_error([&] { optimizer.step(); });
  EXPECT_HAS(message, "options of " + optimizer.rule());
  EXPECT_HAS(message, "the options of parameter group 0");
  EXPECT_HAS(argument_error([&] { optimizer.param_groups()[0].options().get_lr(); }), "cast");
  torch::serialize::OutputArchive archive;
  EXPECT_HAS(argument_error([&] { optimizer.save(archive); }), "cast");
  expect_equal(parameters, before);
}

TEST(ForgottenCast, ToAnUnrelatedClassThrowsBeforeTheNextStep) {
  const Tensors parameters = make_parameters();
  LAMB lamb(parameters, LAMBOptions(0.01));
  is_noticed<torchs::AdamOptions>(lamb, parameters, [](auto& options) { options.lr(0.5); });
  Lion lion(parameters);
  is_noticed<torchs::SGDOptions>(lion, parameters, [](auto& options) { options.nesterov(false); });
  Optimizer generic("adan", parameters, GenericOptions(0.01));
  is_noticed<torchs::AdamOptions>(generic, parameters,
                                  [](auto& options) { options.amsgrad(true); });
  Adan other(parameters);
  is_noticed<torchs::RMSpropOptions>(other, parameters,
                                     [](auto& options) { options.centered(true); });
}

TEST(ForgottenCast, OfGenericOptionsThrowsWhenAnOptimizerGetsThem) {
  GenericOptions options(0.01);
  static_cast<torchs::AdamOptions&>(static_cast<torchs::OptimizerOptions&>(options)).lr(0.5);
  const Tensors parameters = make_parameters();
  Optimizer optimizer("lion", parameters);
  const Tensors more = {torch::zeros({3}).set_requires_grad(true)};
  EXPECT_HAS(argument_error([&] {
               optimizer.add_param_group({more, std::make_unique<GenericOptions>(options)});
             }),
             "cast");
  EXPECT_EQ(optimizer.param_groups().size(), 1u);
}

template <class Torchs>
void is_noticed_in_state(Optimizer& optimizer, const Tensors& parameters,
                         const std::function<void(Torchs&)>& write) {
  train(optimizer, parameters, 1, 1);
  const Tensors before = clones(parameters);
  write(state_of<Torchs>(optimizer, parameters[1]));
  set_gradients(parameters, 2);
  const std::string message = argument_error([&] { optimizer.step(); });
  EXPECT_HAS(message, "the state of " + optimizer.rule());
  EXPECT_HAS(message, "parameter 1 of group 0");
  torch::serialize::OutputArchive archive;
  EXPECT_HAS(argument_error([&] { optimizer.save(archive); }), "cast");
  expect_equal(parameters, before);
}

TEST(ForgottenCast, OfAStateThrowsBeforeTheNextStep) {
  const Tensors parameters = make_parameters();
  for (const char* codec : {"fp32", "int8"}) {
    Adam adam(parameters, AdamOptions().state(codec)),
        again(parameters, AdamOptions().state(codec));
    train(adam, parameters, 1, 1);
    const auto& cast = state_of<torchs::AdamParamState>(adam, parameters[0]);
    EXPECT_FALSE(cast.exp_avg().defined());
    EXPECT_FALSE(cast.exp_avg_sq().defined());
    EXPECT_TRUE(cast.step() < 0 || cast.step() > std::int64_t{1} << 32)
        << "the value would pass as a step number";
    is_noticed_in_state<torchs::AdamParamState>(
        adam, parameters, [](auto& state) { state.exp_avg(torch::zeros({3})); });
    is_noticed_in_state<torchs::AdamParamState>(again, parameters,
                                                [](auto& state) { state.step(7); });
  }
  SGD sgd(parameters, SGDOptions(0.01).momentum(0.9));
  is_noticed_in_state<torchs::SGDParamState>(
      sgd, parameters, [](auto& state) { state.momentum_buffer(torch::zeros({3})); });
}

}  // namespace
}  // namespace jitstep::tests
