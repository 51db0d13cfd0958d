// Steps and loads that fail midway restore everything, and the next attempt succeeds.
#include <filesystem>
#include <fstream>

#include "optim/counted_memory.h"
#include "optim/training.h"
#include "support/own_process.h"

namespace jitstep::tests {
namespace {

// Parameters, state and step numbers of an optimizer, bit for bit.
struct Snapshot {
  Tensors parameters, tensors;
  std::vector<std::int64_t> steps;

  bool operator==(const Snapshot& other) const {
    const auto same = [](const Tensors& a, const Tensors& b) {
      if (a.size() != b.size()) return false;
      for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i].defined() != b[i].defined() || (a[i].defined() && !torch::equal(a[i], b[i])))
          return false;
      return true;
    };
    return steps == other.steps && same(parameters, other.parameters) &&
           same(tensors, other.tensors);
  }
};

Snapshot snapshot(Optimizer& optimizer, const Tensors& parameters) {
  Snapshot all{clones(parameters), {}, {}};
  const auto copy = [](const torch::Tensor& t) { return t.defined() ? t.clone() : t; };
  for (const auto& p : parameters) {
    const auto found = optimizer.state().find(p.unsafeGetTensorImpl());
    all.steps.push_back(-1);
    if (found == optimizer.state().end()) continue;
    const auto& state = static_cast<ParamState&>(*found->second);
    all.steps.back() = state.step();
    for (const jit::Slot& slot : jit::default_catalog().rule(state.rule()).slots) {
      all.tensors.push_back(copy(state.codes(slot.name)));
      all.tensors.push_back(copy(state.meta(slot.name)));
    }
  }
  return all;
}

// Fails the first allocation of `action`, then the second, and so on, until `action` succeeds.
int fail_at_every_allocation(Optimizer& optimizer, const Tensors& parameters,
                             const std::function<void()>& action) {
  for (int left = 0;; ++left) {
    const Snapshot before = snapshot(optimizer, parameters);
    try {
      const CountedMemory scarce(left);
      action();
      return left;
    } catch (const c10::Error& error) {
      EXPECT_HAS(error.what(), "out of memory");
    }
    EXPECT_TRUE(snapshot(optimizer, parameters) == before) << "after " << left << " allocations";
  }
}

AdamWOptions mixed_state() {
  return AdamWOptions(0.01).state("m", "int8").state("v", "int4").amsgrad(false);
}

const std::vector<std::vector<std::int64_t>> kShapes = {{70, 60}, {3}, {5000}, {}};

TEST(Failure, TheFirstStepMayRunOutOfMemoryAtAnyAllocation) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes), twin = clones(parameters);
  AdamW optimizer(parameters, mixed_state()), other(twin, mixed_state());
  set_gradients(parameters, 1);
  const int allocations =
      fail_at_every_allocation(optimizer, parameters, [&] { optimizer.step(); });
  EXPECT_GT(allocations, 10);
  train(optimizer, parameters, 2, 3);
  train(other, twin, 1, 3);
  expect_equal(parameters, twin);
}

TEST(Failure, AStepThatConvertsStateMayRunOutOfMemoryAtAnyAllocation) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes), twin = clones(parameters);
  AdamW optimizer(parameters, mixed_state()), other(twin, mixed_state());
  train(optimizer, parameters, 1, 2);
  train(other, twin, 1, 2);
  for (AdamW* one : {&optimizer, &other})
    static_cast<AdamWOptions&>(one->param_groups()[0].options()).state("int4").amsgrad(true);
  set_gradients(parameters, 3);
  const int allocations =
      fail_at_every_allocation(optimizer, parameters, [&] { optimizer.step(); });
  EXPECT_GT(allocations, 10);
  train(optimizer, parameters, 4, 5);
  train(other, twin, 3, 5);
  expect_equal(parameters, twin);
}

TEST(Failure, AModeSwitchThatConvertsStateMayRunOutOfMemoryAtAnyAllocation) {
  const std::string rule = load_rule(own_file(
      "averaged_iterate.cuh",
      text_of_file(JITSTEP_SOURCE_DIR "/tests/templates/extensions/averaged_iterate.cuh")));
  Tensors parameters = make_parameters(torch::kFloat32, kShapes), twin = clones(parameters);
  const auto int8 = GenericOptions(0.1).state("int8");
  Optimizer optimizer(rule, parameters, int8), other(rule, twin, int8);
  for (const auto& [one, of] : {std::pair{&optimizer, &parameters}, std::pair{&other, &twin}}) {
    train(*one, *of, 1, 2);
    static_cast<Options&>(one->param_groups()[0].options()).edit_formats().state =
        jit::CodecChoice{"int4"};
  }
  const int allocations = fail_at_every_allocation(optimizer, parameters, [&] {
    EXPECT_TRUE(optimizer.is_training());
    optimizer.eval();
  });
  EXPECT_GT(allocations, 5);
  EXPECT_FALSE(optimizer.is_training());
  other.eval();
  expect_equal(parameters, twin);
}

TEST(Failure, LoadingMayRunOutOfMemoryAtAnyAllocation) {
  Tensors parameters = make_parameters(torch::kFloat32, kShapes), twin = clones(parameters);
  AdamW saved(twin, mixed_state()), optimizer(parameters, AdamWOptions(0.5).state("bf16"));
  train(saved, twin, 1, 2);
  train(optimizer, parameters, 1, 1);
  torch::serialize::OutputArchive out;
  saved.save(out);
  torch::serialize::InputArchive in = reread(out);
  const int allocations = fail_at_every_allocation(optimizer, parameters, [&] {
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.5);
    optimizer.load(in);
  });
  EXPECT_GT(allocations, 5);
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.01);
}

// A rule whose kernel compiles only without `around`.
std::string half_broken_rule() {
  return own_file("half_broken.cuh", R"(// Momentum that does not compile with `around`.
#pragma once
#include "../lang/contract.cuh"
namespace jitstep::rules::half_broken {
struct Hyper {
  double lr = 1e-3;  // >= 0
};
struct Flags {
  bool around = false;
};
struct Slots {
  Signed m;
};
struct Scalars { real lr; };
template <Flags F>
struct Rule {
  KHD static Scalars prepare(const Hyper& h, int64) { return {static_cast<real>(h.lr)}; }
  KHD static void update_state(auto& e, const auto&) { e.m.next = e.m.prev * real(0.5) + e.g; }
  KHD static void update_param(auto& e, const auto& c) {
    static_assert(!F.around, "cannot be turned around");
    e.p -= c.lr * e.m.next;
  }
};
}  // namespace jitstep::rules::half_broken
)");
}

TEST(Failure, AConversionIsUndoneIfTheKernelDoesNotCompile) {
  load_rule(half_broken_rule());
  Tensors parameters = make_parameters(torch::kFloat32, {{5000}, {3}}), twin = clones(parameters);
  const auto options = GenericOptions(0.1).state("int8");
  Optimizer optimizer("half_broken", parameters, options), other("half_broken", twin, options);
  train(optimizer, parameters, 1, 2);
  auto& changed = static_cast<Options&>(optimizer.param_groups()[0].options());
  changed.put("around", true);
  changed.edit_formats().state = jit::CodecChoice{"int4"};
  set_gradients(parameters, 3);
  const auto codes = [&] {
    return static_cast<ParamState&>(*optimizer.state()[parameters[0].unsafeGetTensorImpl()])
        .codes("m")
        .clone();
  };
  const torch::Tensor int8 = codes();
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THROW(optimizer.step(), CompileError);
    EXPECT_TRUE(torch::equal(codes(), int8)) << "still the codes of int8";
  }
  changed.put("around", false);
  changed.edit_formats().state = jit::CodecChoice{"int8"};
  train(optimizer, parameters, 3, 4);
  train(other, twin, 1, 4);
  expect_equal(parameters, twin);
}

// ---- a missing compiler ----

// The test below runs this one in a process that finds neither a compiler nor a cached kernel.
TEST(Failure, DISABLED_InAProcessWithoutACompiler) {
  const auto check = [](const auto& action) {
    try {
      action();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const c10::Error& error) {
      const std::string message = error.what_without_backtrace();
      for (const char* part : {"adamw", "/no/compiler"})
        EXPECT_NE(message.find(part), std::string::npos) << message;
      try {
        std::rethrow_if_nested(error);
        ADD_FAILURE() << "the cause is missing";
      } catch (const Error& cause) {
        EXPECT_EQ(cause.what(), message);
      }
    }
  };
  Tensors parameters = make_parameters(torch::kFloat32, {{5}});
  AdamW optimizer(parameters, AdamWOptions(1e-3));
  set_gradients(parameters, 1);
  const torch::Tensor before = parameters[0].detach().clone();
  check([&] { optimizer.compile(); });
  for (int attempt = 0; attempt < 2; ++attempt) check([&] { optimizer.step(); });
  EXPECT_TRUE(torch::equal(parameters[0], before));
  optimizer.step_in_backward();
  check([&] { parameters[0].sum().backward(); });
}

TEST(Failure, AMissingCompilerIsATorchErrorWithItsCause) {
  EXPECT_EQ(OwnProcess().run("Failure.DISABLED_InAProcessWithoutACompiler",
                             "JITSTEP_CXX=/no/compiler JITSTEP_CACHE_READONLY="),
            0);
}

// ---- closures ----

TEST(Failure, AClosureThatThrowsChangesNothing) {
  Tensors parameters = make_parameters(), twin = clones(parameters);
  AdamW optimizer(parameters), other(twin);
  train(optimizer, parameters, 1, 2);
  set_gradients(parameters, 3);
  EXPECT_THROW(optimizer.step([]() -> torch::Tensor { throw std::runtime_error("no data"); }),
               std::runtime_error);
  EXPECT_TRUE(torch::GradMode::is_enabled());
  train(optimizer, parameters, 3, 4);
  train(other, twin, 1, 4);
  expect_equal(parameters, twin);
}

TEST(Failure, AClosureMayCallStep) {
  Tensors parameters = make_parameters(), twin = clones(parameters);
  AdamW optimizer(parameters), other(twin);
  set_gradients(parameters, 1);
  set_gradients(twin, 1);
  optimizer.step([&] {
    optimizer.step();
    return torch::tensor(1.0);
  });
  other.step();
  other.step();
  expect_equal(parameters, twin);
}

TEST(Failure, AClosureMayChangeTheGroups) {
  Tensors parameters = make_parameters(torch::kFloat32, {{4}, {6}}), twin = clones(parameters);
  SGD optimizer({parameters[0]}, 0.1), other(twin, 0.5);
  optimizer.step([&] {
    optimizer.add_param_group(OptimizerParamGroup({parameters[1]}));
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0.5);
    set_gradients(parameters, 1);
    return torch::tensor(1.0);
  });
  train(other, twin, 1, 1);
  expect_equal(parameters, twin);
}

TEST(Failure, NothingToStepIsNoError) {
  AdamW none(Tensors{});
  EXPECT_NO_THROW(none.step());
  const Tensors empty = {torch::zeros({0}).requires_grad_(), torch::zeros({3, 0}).requires_grad_()};
  AdamW optimizer(empty, AdamWOptions().state("int8").min_quantized_size(0).max_grad_norm(1));
  train(optimizer, empty, 1, 2);
  AdamW group(std::vector<OptimizerParamGroup>{OptimizerParamGroup(Tensors{})});
  EXPECT_NO_THROW(group.step());
}

}  // namespace
}  // namespace jitstep::tests
