// torch's optimizers continue from jitstep's archives, and jitstep's from torch's. Each follows torch's optimizer that
// was never interrupted.
#include "optim/training.h"

namespace jitstep::tests {
namespace {

constexpr int kBreak = 5, kLast = 15;

// Two groups with different numbers. The second parameter of each group is first trained after the break, so that it
// has no state to save.
template <class Optimizer, class Options, class Set>
Optimizer make(const Tensors& p, double lr, Set set) {
  Options first(lr), second(lr / 3);
  set(first), set(second);
  second.weight_decay(0.2);
  return Optimizer({OptimizerParamGroup({p[0], p[1]}, std::make_unique<Options>(first)),
                    OptimizerParamGroup({p[2], p[3]}, std::make_unique<Options>(second))},
                   first);
}

template <class Optimizer>
void train_some(Optimizer& optimizer, const Tensors& p, int first, int last) {
  for (int step = first; step <= last; ++step) {
    set_gradients(p, step);
    if (step <= kBreak + 2) p[1].mutable_grad() = p[3].mutable_grad() = torch::Tensor();
    optimizer.step();
  }
}

Tensors make_four() { return make_parameters(torch::kFloat64, {{5, 3}, {4}, {}, {2, 3, 2}}); }

// The receiver's options differ: those of `made`, and another rate. The archive's options replace them.
template <class From, class FromOptions, class To, class ToOptions, class Set, class Made>
void goes_on(const Tensors& reference, Set set, Made made) {
  const Tensors p = make_four();
  auto from = make<From, FromOptions>(p, 0.1, set);
  train_some(from, p, 1, kBreak);
  auto to = make<To, ToOptions>(p, 0.7, made);
  copy_through_archive(from, to);
  EXPECT_EQ(to.param_groups()[0].options().get_lr(), 0.1);
  train_some(to, p, kBreak + 1, kLast);
  expect_close(p, reference, 1e-11, 1e-11);
}

constexpr auto kDefaults = [](auto&) {};

template <class Ours, class OurOptions, class Theirs, class TheirOptions, class Set,
          class Made = decltype(kDefaults)>
void exchanges(Set set, Made made = kDefaults) {
  const Tensors reference = make_four();
  auto whole = make<Theirs, TheirOptions>(reference, 0.1, set);
  train_some(whole, reference, 1, kLast);
  {
    SCOPED_TRACE("from torch to jitstep");
    goes_on<Theirs, TheirOptions, Ours, OurOptions>(reference, set, made);
  }
  {
    SCOPED_TRACE("from jitstep to torch");
    goes_on<Ours, OurOptions, Theirs, TheirOptions>(reference, set, made);
  }
}

#define EXCHANGES(name, ...)                                                                      \
  {                                                                                               \
    SCOPED_TRACE(#__VA_ARGS__);                                                                   \
    exchanges<name, name##Options, torch::optim::name, torch::optim::name##Options>(__VA_ARGS__); \
  }

TEST(TorchArchive, OfSgdIsExchanged) {
  EXCHANGES(SGD, [](auto&) {});
  EXCHANGES(SGD, [](auto& o) { o.momentum(0.9); });
  EXCHANGES(SGD, [](auto& o) { o.momentum(0.9).dampening(0.3); });
  EXCHANGES(SGD, [](auto& o) { o.momentum(0.9).nesterov(true); });
}

TEST(TorchArchive, OfAdamIsExchanged) {
  EXCHANGES(Adam, [](auto&) {});
  EXCHANGES(Adam, [](auto& o) { o.betas({0.8, 0.9}).eps(1e-4).amsgrad(true); });
}

TEST(TorchArchive, OfAdamWIsExchanged) {
  EXCHANGES(AdamW, [](auto&) {});
  EXCHANGES(AdamW, [](auto& o) { o.betas({0.8, 0.9}).eps(1e-4).amsgrad(true); });
}

TEST(TorchArchive, OfRmspropIsExchanged) {
  EXCHANGES(RMSprop, [](auto&) {});
  EXCHANGES(RMSprop, [](auto& o) { o.momentum(0.9); });
  EXCHANGES(RMSprop, [](auto& o) { o.centered(true).alpha(0.9).eps(1e-4); });
  EXCHANGES(RMSprop, [](auto& o) { o.centered(true).momentum(0.9); });
}

TEST(TorchArchive, OfAdagradIsExchanged) {
  EXCHANGES(Adagrad, [](auto&) {});
  EXCHANGES(Adagrad, [](auto& o) { o.lr_decay(0.1).eps(1e-4); });
  // If an archive has no state, torch's Adagrad keeps the sums from its construction.
  const auto set = [](auto& o) { o.initial_accumulator_value(0.3); };
  EXCHANGES(Adagrad, set, set);
}

TEST(TorchArchive, OfAnotherOptimizerIsRejectedAndNothingChanges) {
  Tensors parameters = make_parameters(), theirs = clones(parameters);
  torch::optim::AdamW adamw(theirs, torch::optim::AdamWOptions(0.5));
  torch::optim::SGD sgd(theirs, torch::optim::SGDOptions(0.5));
  train(adamw, theirs, 1, 1);
  SGD ours(parameters, 0.1);
  LAMB lamb(parameters);
  RMSprop rmsprop(parameters);
  EXPECT_HAS(argument_error([&] { copy_through_archive(adamw, ours); }),
             "the checkpoint was not saved by sgd");
  EXPECT_HAS(argument_error([&] { copy_through_archive(adamw, lamb); }), "no option amsgrad");
  EXPECT_HAS(argument_error([&] { copy_through_archive(sgd, rmsprop); }),
             "the checkpoint was not saved by rmsprop");
  EXPECT_EQ(ours.param_groups()[0].options().get_lr(), 0.1);
  EXPECT_TRUE(ours.state().empty());
}

TEST(TorchArchive, IsLoadedIntoAQuantizedOptimizerWithAWarning) {
  const Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  torch::optim::AdamW theirs(parameters);
  train(theirs, parameters, 1, 3);
  AdamW ours(parameters, AdamWOptions().state("int8"));
  Warnings warnings;
  copy_through_archive(theirs, ours);
  EXPECT_HAS(
      warnings.all,
      "m from fp32 to int8(block=256, positive_floor=true, signed_scale=false, stochastic=false)");
  const auto key = parameters[0].unsafeGetTensorImpl();
  const auto& exact = static_cast<torch::optim::AdamWParamState&>(*theirs.state()[key]).exp_avg();
  const auto& held = static_cast<AdamWParamState&>(*ours.state()[key]);
  EXPECT_EQ(held.codes("m").scalar_type(), torch::kUInt8);
  EXPECT_LT((held.exp_avg() - exact).abs().max().item<double>(),
            0.02 * exact.abs().max().item<double>());
}

// Nothing of the first archive may stay: torch's has no formats and no shape.
TEST(TorchArchive, OfOneStateReplacesAnArchiveOfJitstep) {
  const Tensors p = make_parameters(torch::kFloat32, {{4, 8}}),
                q = make_parameters(torch::kFloat32, {{3}});
  AdamW ours(p, AdamWOptions().state("int8"));
  torch::optim::AdamW theirs(q);
  train(ours, p, 1, 2);
  train(theirs, q, 1, 2);
  AdamWParamState state;
  for (const auto* const from :
       {ours.state().begin()->second.get(), theirs.state().begin()->second.get()})
    serialize_through_archive(*from, state);
  const auto& last = static_cast<torch::optim::AdamWParamState&>(*theirs.state().begin()->second);
  EXPECT_TRUE(torch::equal(state.exp_avg(), last.exp_avg()));
  EXPECT_EQ(state.step(), 2);
  AdamW next(q);
  next.state()[q[0].unsafeGetTensorImpl()] = std::make_unique<AdamWParamState>(state);
  train(next, q, 3, 3);
  EXPECT_EQ(static_cast<AdamWParamState&>(*next.state().begin()->second).step(), 3);
}

// Only another group's default can leave sums that differ from the initial value of the group's own options.
TEST(TorchArchive, OfAdagradIsRejectedIfItsSumsContradictTheOptions) {
  const Tensors p = make_four();
  using TheirOptions = torch::optim::AdagradOptions;
  auto group = std::make_unique<TheirOptions>(TheirOptions(0.1).initial_accumulator_value(0.5));
  torch::optim::Adagrad theirs({OptimizerParamGroup({p[0]}, std::move(group))}, TheirOptions(0.1));
  Adagrad ours({p[0]}, AdagradOptions());
  EXPECT_HAS(argument_error([&] { copy_through_archive(theirs, ours); }),
             "the slot sum has values, but its step number is 0");
}

}  // namespace
}  // namespace jitstep::tests
