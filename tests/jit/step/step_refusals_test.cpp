// Errors of a step without torch. Each names the tensor or input, and is thrown before anything is changed.
#include <gtest/gtest.h>

#include <functional>

#include "jit/fixtures.h"
#include "jitstep/jit/error.h"
#include "jitstep/jit/option_values.h"
#include "jitstep/jit/state_storage.h"
#include "jitstep/jit/step.h"

namespace jitstep::jit {
namespace {

using testing::error_of;
using testing::settings_with_cache;
using testing::TemporaryFolder;

class StepErrors : public ::testing::Test {
 protected:
  StepErrors() { options.set("momentum", 0.5); }

  Plan plan() const { return resolve(options, {"int8"}); }

  // The error of a step of two tensors, with ids 3 and 4, after `change`. The parameters must not change.
  std::string refused(const std::function<void(std::vector<StepTensor>&, std::vector<StepInput>&,
                                               std::vector<HyperParams>&)>& change) {
    std::vector<float> p(100, 1.0f), q(p), g(100, 1.0f);
    const StateStorage state(cpu, plan(), options, {100}), other(cpu, plan(), options, {10, 10});
    std::vector<StepTensor> tensors = {state.tensor(p.data(), 3), other.tensor(q.data(), 4)};
    std::vector<StepInput> inputs = {{.g = g.data()}, {.g = g.data()}};
    std::vector<HyperParams> sets = {plan().at_step(options, 1)};
    change(tensors, inputs, sets);
    const std::string error = error_of([&] { Step(cpu, {{plan(), tensors}}).run(inputs, sets); });
    EXPECT_EQ(p, std::vector<float>(100, 1.0f));
    EXPECT_EQ(q, p);
    return error;
  }

  TemporaryFolder folder;
  Engine engine{settings_with_cache(folder.path())};
  CpuBackend cpu{engine};
  OptionValues options{"sgd"};
};

TEST_F(StepErrors, InvalidInputs) {
  EXPECT_EQ(
      refused([](auto&, auto& inputs, auto&) { inputs[1].hyper_index = 1; }),
      "invalid step input 1 (tensor with id 4): hyper_index is 1, but the number of HyperParams "
      "is 1");
  EXPECT_EQ(
      refused([](auto&, auto& inputs, auto&) { inputs[0].hyper_index = -1; }),
      "invalid step input 0 (tensor with id 3): hyper_index is -1, but the number of HyperParams "
      "is 1");
  EXPECT_EQ(refused([](auto&, auto& inputs, auto&) { inputs.pop_back(); }),
            "the step has 2 tensors, but 1 inputs. Give one per tensor, batch after batch.");
  EXPECT_EQ(
      refused([](auto&, auto& inputs, auto&) { inputs[1].g = nullptr; }),
      "invalid step input 1 (tensor with id 4): the gradient is missing: g is null. Leave the "
      "tensor out of the step's batches, or set `inactive`.");
  EXPECT_EQ(refused([](auto&, auto&, auto& sets) { sets[0].t = 0; }),
            "HyperParams 0 of the step have the step number 0. Step numbers start at 1.");
}

TEST_F(StepErrors, InconsistentFoundInfOrStepOffsets) {
  const float found = 1, other = 0;
  int64 step_offsets[2] = {};
  const auto change = [&](const float* second, int64* step_offset) {
    return refused([&](auto&, auto& inputs, auto& sets) {
      sets.push_back(sets[0]);
      inputs[1].hyper_index = 1;
      sets[0].found_inf = &found;
      sets[1].found_inf = second;
      sets[0].step_offset = &step_offsets[0];
      sets[1].step_offset = step_offset;
    });
  };
  EXPECT_EQ(change(&other, &step_offsets[1]),
            "the HyperParams of a step have different found_inf. A step is skipped as a whole. Set "
            "the same found_inf in all of them.");
  EXPECT_EQ(
      change(&found, &step_offsets[0]),
      "invalid step input 1 (tensor with id 4): another tensor has the same step_offset in a step "
      "with found_inf. Give each tensor HyperParams with its own step_offset.");
  EXPECT_EQ(
      change(&found, nullptr),
      "invalid step input 1 (tensor with id 4): step_offset is null in a step with found_inf. "
      "Give each tensor HyperParams with its own step_offset.");
}

TEST_F(StepErrors, AGradScaleForAKernelThatDoesNotDivide) {
  const float scale = 2;
  EXPECT_EQ(refused([&](auto&, auto&, auto& sets) { sets[0].grad_scale = &scale; }),
            "cannot step with a grad_scale by " + plan().name +
                ": the kernel does not divide gradients. Call resolve() with the gradient flag "
                "\"scaled\".");
  KernelSpec spec = plan().spec;
  spec.gradient_flags["scaled"] = true;
  EXPECT_EQ(resolve(spec).at_step(options, 3).t, 3) << "options that do not divide will do";
}

TEST_F(StepErrors, NullPointers) {
  const std::string who =
      "cannot step the tensor with id 4 by sgd_int8_float32: it has no memory for ";
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].p = nullptr; }),
            who + "its values: p is null");
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].slots.clear(); }),
            who + "the codes of its slot m");
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].slots[0].meta = nullptr; }),
            who + "the scales of its slot m");
}

TEST_F(StepErrors, TensorsThatTheKernelCannotStep) {
  const std::string who = "cannot step the tensor with id 4 by sgd_int8_float32: it ";
  EXPECT_EQ(
      refused([](auto& tensors, auto&, auto&) { tensors[1].offset = 12; }),
      who +
          "starts at element 12. Its offset must be a multiple of 8, because 8 elements share "
          "a draw of random bits.");
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].slots.resize(9); }),
            who + "has 9 slots, but the rule has 1. Create a StateStorage for this plan.");
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].aux_state.resize(9); }),
            who +
                "has 9 fields of auxiliary state, but the kernel has 0. Create a StateStorage for "
                "this plan.");
  const StateStorage of_int4(cpu, resolve(options, {"int4"}), options, {100});
  EXPECT_EQ(refused([&](auto& tensors, auto&, auto&) {
              tensors[1] = of_int4.tensor(tensors[1].p, tensors[1].id);
            }),
            who + "has state for another plan or shape. Create a StateStorage for this plan.");
  options.set("max_grad_norm", 1.0);
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].id = 3; }),
            "tensors 0 and 1 of the step (counted from 0) both have the id 3. Ids order the sums "
            "over all tensors. Give each its own.");
  EXPECT_NE(refused([](auto& tensors, auto&, auto&) {
              tensors[1].id = std::numeric_limits<int>::max();
            }).find("needs ids below"),
            std::string::npos);
}

TEST_F(StepErrors, PartsThatCannotBeStepped) {
  const auto part = [](std::int64_t offset, std::int64_t whole) {
    return [=](auto& tensors, auto&, auto&) {
      tensors[1].offset = offset;
      tensors[1].whole = whole;
    };
  };
  const auto names = [&](const std::string& error) {
    return error.starts_with("cannot step the tensor with id 4 ");
  };
  EXPECT_TRUE(names(refused(part(0, 99)))) << "smaller than the part";
  EXPECT_TRUE(names(refused(part(0, -1))));
  EXPECT_TRUE(names(refused(part(4096, 4195)))) << "it ends after the whole tensor";
  EXPECT_TRUE(names(refused(part(256, 356)))) << "sums need 4096";
  EXPECT_TRUE(names(refused(part(0, 101)))) << "and the next part begins at 100";
  options.set("max_grad_norm", 1.0);
  EXPECT_NE(refused(part(4096, 4196)).find("set_exchange"), std::string::npos);
}

TEST_F(StepErrors, MoreDimensionsThanKernelsTake) {
  const std::string what =
      "cannot step the tensor with id 4 by sgd_int8_float32: it has 9 dimensions. At most 8 are "
      "supported if the rule has reductions over rows or similar domains, if it reads sizes, or if "
      "parameter and gradient are in different orders. Reshape it.";
  const std::vector<std::int64_t> descending = {256, 128, 64, 32, 16, 8, 4, 2, 1},
                                  ascending(descending.rbegin(), descending.rend());
  const auto with_dims = [&](const std::vector<std::int64_t>& g_strides) {
    return [=](auto& tensors, auto&, auto&) {
      tensors[1].layout.reset();
      tensors[1].shape = {std::vector<std::int64_t>(9, 2), descending};
      tensors[1].g_strides = g_strides;
    };
  };
  EXPECT_EQ(refused(with_dims(ascending)), what);
  options.set("centralization", 0.5);  // means along dimension 0
  EXPECT_EQ(refused(with_dims(descending)), what);
}

TEST_F(StepErrors, TensorsThatOverlap) {
  const std::string who =
      "tensors 0 and 1 of the step (counted from 0), with the ids 3 and 4, share memory: ";
  const std::string advice =
      " of the second are in memory of the first. Give each tensor memory of its own.";
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].p = tensors[0].p; }),
            who + "the values" + advice);
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) {
              tensors[1].slots[0].codes = tensors[0].slots[0].codes;
            }),
            who + "the codes" + advice);
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) { tensors[1].slots[0].meta = tensors[0].p; }),
            who + "the scales" + advice);
  EXPECT_EQ(refused([](auto& tensors, auto&, auto&) {
              tensors[1] = tensors[0];
              tensors[1].id = 4;
            }),
            who + "the values" + advice);
  std::vector<float> none;
  const StateStorage empty(cpu, plan(), options, {0});
  const StepTensor nothing = empty.tensor(none.data());
  EXPECT_NO_THROW(Step(cpu, {{plan(), {nothing, nothing}}}))
      << "tensors without elements share none";
}

TEST_F(StepErrors, AMovedFromStep) {
  std::vector<float> p(100, 1.0f), g(100, 1.0f);
  const StateStorage state(cpu, plan(), options, {100});
  Step step(cpu, {{plan(), {state.tensor(p.data())}}});
  Step moved = std::move(step);
  const std::string what = "this Step was moved from. Use the Step that it was moved to.";
  EXPECT_EQ(error_of([&] { step.size(); }), what);
  EXPECT_EQ(error_of([&] { step.kernel(); }), what);
  EXPECT_EQ(error_of([&] { step.prepare({}, {}); }), what);
  EXPECT_EQ(error_of([&] { step.launch(); }), what);
  moved.run({{.g = g.data()}}, {plan().at_step(options, 1)});
  EXPECT_NE(p, g);
}

TEST_F(StepErrors, ALaunchThatWasNotPrepared) {
  std::vector<float> p(100, 1.0f), g(100, 1.0f);
  const StateStorage state(cpu, plan(), options, {100});
  Step step(cpu, {{plan(), {state.tensor(p.data())}}});
  EXPECT_NE(error_of([&] { step.launch(); }).find("prepare()"), std::string::npos);
  EXPECT_THROW(step.prepare({}, {}), Error);
  EXPECT_THROW(step.launch(), Error);
  step.run({{.g = g.data()}}, {plan().at_step(options, 1)});
  const std::vector<float> once = p;
  EXPECT_THROW(step.launch(), Error) << "a step number is used once";
  EXPECT_EQ(p, once);
}

TEST_F(StepErrors, OptionsThatNeedAnotherKernel) {
  const Plan made = plan();
  options.set("lr", 0.25);
  EXPECT_EQ(made.at_step(options, 3).t, 3) << "numbers may change";
  for (const auto& [name, value] : std::map<std::string, Value>{
           {"nesterov", true}, {"max_grad_norm", 1.0}, {"momentum", 0.0}}) {
    OptionValues changed = options;
    changed.set(name, value);
    const std::string error = error_of([&] { made.at_step(changed, 3); });
    EXPECT_NE(error.find("are not those of the kernel"), std::string::npos) << name << error;
    EXPECT_NO_THROW(resolve(changed, {"int8"}).at_step(changed, 3)) << name;
  }
  OptionValues wrong = options;
  wrong.set("lr", -1.0);
  EXPECT_THROW(made.at_step(wrong, 3), Error);
  EXPECT_THROW(made.at_step(OptionValues("adamw"), 3), Error);
  EXPECT_THROW(made.at_step(options, 0), Error);
}

}  // namespace
}  // namespace jitstep::jit
