// State before a parameter's first step: values that programs set, and state that torch makes at construction.
#include <ATen/record_function.h>

#include "optim/state/param_state_data.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

// ---- SGD, whose state has no step number in torch ----

template <class Optimizer, class Options>
Options momentum_options() {
  return Options(0.1).momentum(0.9).dampening(0.3);
}

template <class Optimizer, class Options, class State>
Tensors trained_from(const Tensors& buffers) {
  const Tensors p = make_parameters(torch::kFloat64, {{5, 3}, {7}, {}, {0}});
  Optimizer optimizer(p, momentum_options<Optimizer, Options>());
  for (std::size_t i = 0; i < p.size(); ++i) {
    auto state = std::make_unique<State>();
    state->momentum_buffer(buffers[i].clone());
    optimizer.state()[p[i].unsafeGetTensorImpl()] = std::move(state);
  }
  train(optimizer, p, 1, 3);
  return p;
}

TEST(SgdState, MadeByTheProgramContinuesAsInTorch) {
  const Tensors p = make_parameters(torch::kFloat64, {{5, 3}, {7}, {}, {0}});
  for (const double value : {0.0, 0.5, -2.0}) {
    Tensors buffers;
    for (const torch::Tensor& one : p) buffers.push_back(torch::full_like(one.detach(), value));
    expect_close(
        trained_from<SGD, SGDOptions, SGDParamState>(buffers),
        trained_from<torch::optim::SGD, torch::optim::SGDOptions, torch::optim::SGDParamState>(
            buffers),
        1e-12, 1e-12);
  }
}

// torch's Python class and timm's SGDW have no step number either.
TEST(SgdState, OfSgdwContinuesToo) {
  const torch::Tensor p = torch::zeros({4}).requires_grad_();
  SGDW optimizer(Tensors{p}, SGDWOptions(1).momentum(0.5).dampening(0.25).weight_decay(0));
  auto state = std::make_unique<SGDWParamState>();
  state->momentum_buffer(torch::full({4}, 2.0));
  optimizer.state()[p.unsafeGetTensorImpl()] = std::move(state);
  p.mutable_grad() = torch::ones({4});
  optimizer.step();
  EXPECT_TRUE(p.eq(-(0.5 * 2 + 0.75)).all().item<bool>()) << p;
}

// One parameter whose gradient is one.
struct OneParameter {
  torch::Tensor p = torch::zeros({4}).requires_grad_();
  SGD optimizer{Tensors{p}, SGDOptions(1).momentum(0.5).dampening(0.25)};

  OneParameter() { p.mutable_grad() = torch::ones({4}); }
  SGDParamState& state() { return state_of<SGDParamState>(optimizer, p); }
  void skip_a_step() {
    optimizer.set_found_inf(torch::ones({}));
    optimizer.step();
    optimizer.set_found_inf({});
  }
  void step_to(double value) {
    optimizer.step();
    EXPECT_TRUE(p.eq(value).all().item<bool>()) << p;
  }
};

TEST(SgdState, ContinuesFromASetValueAfterASkippedStep) {
  for (const double value : {0.0, 2.0}) {
    OneParameter one;
    one.skip_a_step();
    EXPECT_EQ(one.state().step(), 0);
    one.state().momentum_buffer(torch::full({4}, value));
    one.step_to(-(0.5 * value + 0.75));
  }
}

TEST(SgdState, KeepsItsStepIfAValueIsRejected) {
  OneParameter one;
  one.skip_a_step();
  EXPECT_THROW(one.state().momentum_buffer(torch::ones({5})), c10::Error);
  EXPECT_EQ(one.state().step(), 0);
  one.step_to(-1);
}

TEST(SgdState, StartsFromTheGradientIfNothingWasSet) {
  OneParameter one;
  one.optimizer.state()[one.p.unsafeGetTensorImpl()] = std::make_unique<SGDParamState>();
  one.skip_a_step();
  one.step_to(-1);
}

// ---- Adagrad, whose state torch makes at construction ----

const std::vector<std::vector<std::int64_t>> kShapes = {{5, 3}, {70, 60}, {}, {0}};

AdagradOptions options_of(const std::string& codec) {
  return AdagradOptions(0.1).initial_accumulator_value(0.3).min_quantized_size(0).state(codec);
}

TEST(AdagradState, ExistsBeforeTheFirstStepAsInTorch) {
  for (const auto dtype : {torch::kFloat32, torch::kFloat64}) {
    const Tensors ours = make_parameters(dtype, kShapes), theirs = clones(ours);
    Adagrad a(ours, options_of("fp32"));
    torch::optim::Adagrad b(theirs,
                            torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.3));
    ASSERT_EQ(a.state().size(), ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto& mine = state_of<AdagradParamState>(a, ours[i]);
      EXPECT_EQ(mine.step(), 0);
      EXPECT_TRUE(
          torch::equal(mine.sum(), state_of<torch::optim::AdagradParamState>(b, theirs[i]).sum()));
      EXPECT_EQ(mine.sum().dtype(), ours[i].dtype());
      EXPECT_EQ(mine.sum().strides(), ours[i].strides());
    }
    train(a, ours, 1, 4);
    train(b, theirs, 1, 4);
    expect_close(ours, theirs, 1e-6, 1e-6);
  }
}

TEST(AdagradState, ShowsItsInitialValuesInEveryFormat) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4", "factored", "int4_rank1"}) {
    const Tensors p = make_parameters(torch::kFloat32, kShapes), twin = clones(p);
    Adagrad looked_at(p, options_of(codec)), other(twin, options_of(codec));
    for (const torch::Tensor& one : p) {
      const torch::Tensor sum = state_of<AdagradParamState>(looked_at, one).sum();
      EXPECT_TRUE(torch::equal(sum, torch::full_like(one.detach(), 0.3))) << codec;
    }
    EXPECT_GT(looked_at.memory_report().state_bytes(), 0);
    train(looked_at, p, 1, 3);
    train(other, twin, 1, 3);
    expect_equal(p, twin);
  }
}

TEST(AdagradState, OfLaterParametersStartsFromTheirOptions) {
  const Tensors p = make_parameters();
  Adagrad optimizer({p[0]}, options_of("fp32"));
  optimizer.add_param_group(
      {{p[1]}, std::make_unique<AdagradOptions>(options_of("fp32").initial_accumulator_value(2))});
  optimizer.add_parameters({p[2]});
  EXPECT_EQ(state_of<AdagradParamState>(optimizer, p[1]).sum()[2].item<float>(), 2);
  EXPECT_EQ(state_of<AdagradParamState>(optimizer, p[2]).sum().item<float>(), 0.3f);
  EXPECT_EQ(state_of<AdagradParamState>(optimizer, p[2]).id(), 2);
}

TEST(AdagradState, IsExchangedWithTorchBeforeTheFirstStepInEveryFormat) {
  using Theirs = torch::optim::Adagrad;
  const auto torchs = torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.3);
  for (const char* codec : {"fp32", "int8"}) {
    const Tensors p = make_parameters(torch::kFloat32, kShapes), q = clones(p), r = clones(p),
                  s = clones(p);
    Adagrad never(p, options_of(codec)), ours(q, options_of(codec));
    Theirs from(r, torchs), to(s, torchs);
    copy_through_archive(from, ours);
    train(never, p, 1, 3);
    train(ours, q, 1, 3);
    expect_equal(q, p);
    if (std::string(codec) != "fp32") continue;
    Adagrad fresh(r, options_of(codec));
    copy_through_archive(fresh, to);
    train(to, s, 1, 3);
    expect_close(s, p, 1e-6, 1e-6);
  }
}

TEST(AdagradState, DoesNotExistForARejectedGroup) {
  const Tensors p = make_parameters();
  Adagrad optimizer({p[0]}, AdagradOptions(0.1));
  EXPECT_FALSE(argument_error([&] { optimizer.add_param_group({{p[1], p[0]}}); }).empty());
  EXPECT_EQ(optimizer.state().size(), 1u);
}

TEST(AdagradState, IsMadeByTheStepAfterItWasErased) {
  const Tensors p = make_parameters(), twin = clones(p);
  Adagrad optimizer(p, options_of("fp32")), other(twin, options_of("fp32"));
  optimizer.state().clear();
  train(optimizer, p, 1, 2);
  train(other, twin, 1, 2);
  expect_equal(p, twin);
}

// Steps also do not check each of its tensors, and the first step does not wait for the device.
TEST(AdagradState, IsNotSharedUntilTheProgramReadsIt) {
  for (const char* codec : {"fp32", "int8"}) {
    const Tensors p = make_parameters();
    Adagrad optimizer(p, options_of(codec));
    const auto is_shared = [&] {
      return state_of<AdagradParamState>(optimizer, p[0]).data().escaped.is_set();
    };
    EXPECT_FALSE(is_shared());
    train(optimizer, p, 1, 2);
    EXPECT_FALSE(is_shared());
    auto& options = static_cast<AdagradOptions&>(optimizer.param_groups()[0].options());
    options.weight_decay(0.1).state(std::string(codec) == "int8" ? "bf16" : "int8");
    train(optimizer, p, 3, 3);  // binds the state again
    EXPECT_FALSE(is_shared());
    state_of<AdagradParamState>(optimizer, p[0]).sum();
    EXPECT_TRUE(is_shared());
  }
}

// Counts the numbers that torch copies from a device to the host in this thread. Each copy waits for the device.
class Waits {
 public:
  Waits() : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(&count))) {
    counted_ = 0;
  }
  ~Waits() { at::removeCallback(callback_); }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;
  int counted() const { return counted_; }

 private:
  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& operation) {
    if (operation.name() == std::string("aten::item")) ++counted_;
    return nullptr;
  }
  static inline int counted_ = 0;
  at::CallbackHandle callback_;
};

TEST(AdagradState, DoesNotSynchronizeTheFirstStepIfTheProgramDidNotReadIt) {
  const Tensors p = make_parameters();
  Adagrad optimizer(p, options_of("fp32"));
  set_gradients(p, 1);
  {
    const Waits waits;
    optimizer.step();
    EXPECT_EQ(waits.counted(), 0);
  }
  const Waits waits;
  torch::ones({}).item<float>();
  EXPECT_EQ(waits.counted(), 1) << "torch renamed the operation that this test counts";
}

TEST(AdagradState, MustHoldItsInitialValuesAtStepZero) {
  const Tensors p = make_parameters();
  Adagrad optimizer(p, options_of("fp32"));
  train(optimizer, p, 1, 1);
  state_of<AdagradParamState>(optimizer, p[0]).step() = 0;
  EXPECT_HAS(argument_error([&] { train(optimizer, p, 2, 2); }), "step number is 0");
}

TEST(AdagradState, IsCheckedIfTheProgramWroteToIt) {
  const Tensors p = make_parameters();
  Adagrad optimizer(p, options_of("fp32"));
  state_of<AdagradParamState>(optimizer, p[0]).sum().fill_(4);
  EXPECT_HAS(argument_error([&] { train(optimizer, p, 1, 1); }), "step number is 0");
}

// The value of the option at the first step applies.
TEST(AdagradState, IsSavedAndLoadedBeforeTheFirstStepIfItsOptionChanged) {
  for (const double changed : {2.0, 0.0}) {
    const torch::Tensor p = torch::ones({3}).requires_grad_();
    Adagrad optimizer(Tensors{p}, AdagradOptions(1).initial_accumulator_value(0.25).eps(0));
    static_cast<AdagradOptions&>(optimizer.param_groups()[0].options())
        .initial_accumulator_value(changed);
    std::stringstream file;
    torch::save(optimizer, file);
    const torch::Tensor q = torch::ones({3}).requires_grad_();
    Adagrad other(Tensors{q}, AdagradOptions(1));
    torch::load(other, file);
    q.mutable_grad() = torch::ones({3});
    other.step();
    EXPECT_TRUE(torch::allclose(q, torch::full({3}, 1 - 1 / std::sqrt(1 + changed)))) << q;
  }
}

TEST(AdagradState, StartsFromAnOptionThatChangedAfterConstruction) {
  for (const char* codec : {"fp32", "int8"}) {
    const Tensors p = make_parameters(), twin = clones(p);
    Adagrad changed(p, options_of(codec)),
        other(twin, options_of(codec).initial_accumulator_value(2));
    static_cast<AdagradOptions&>(changed.param_groups()[0].options()).initial_accumulator_value(2);
    train(changed, p, 1, 2);
    train(other, twin, 1, 2);
    expect_equal(p, twin);
  }
}

}  // namespace
}  // namespace jitstep::tests
