#include "jitstep/param_state.h"

#include <functional>

#include "optim/counted_memory.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

TEST(ParamState, HoldsTorchsNamesAndValues) {
  Tensors ours = make_parameters(torch::kFloat64), theirs = clones(ours);
  AdamW a(ours, AdamWOptions().amsgrad(true));
  torch::optim::AdamW b(theirs, torch::optim::AdamWOptions().amsgrad(true));
  train(a, ours, 1, 3);
  train(b, theirs, 1, 3);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto& mine = state_of<AdamWParamState>(a, ours[i]);
    const auto& torchs = state_of<torch::optim::AdamWParamState>(b, theirs[i]);
    EXPECT_EQ(mine.step(), 3);
    expect_close({mine.exp_avg(), mine.exp_avg_sq(), mine.max_exp_avg_sq()},
                 {torchs.exp_avg(), torchs.exp_avg_sq(), torchs.max_exp_avg_sq()}, 1e-12, 1e-12);
  }
}

TEST(ParamState, AnOmittedSlotIsUndefined) {
  Tensors parameters = make_parameters();
  AdamW adamw(parameters);
  SGD sgd(parameters, 0.1);
  train(adamw, parameters, 1, 1);
  train(sgd, parameters, 1, 1);
  EXPECT_FALSE(state_of<AdamWParamState>(adamw, parameters[0]).max_exp_avg_sq().defined());
  EXPECT_FALSE(state_of<SGDParamState>(sgd, parameters[0]).momentum_buffer().defined());
}

TEST(ParamState, AQuantizedSlotIsDecodedAndItsCodesAreShown) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}}), wide = clones(parameters);
  AdamW coded(parameters, AdamWOptions().state("int8")), plain(wide);
  train(coded, parameters, 1, 1);
  train(plain, wide, 1, 1);
  const auto& state = state_of<AdamWParamState>(coded, parameters[0]);
  EXPECT_EQ(state.codes("exp_avg").numel(), 4200);
  EXPECT_EQ(state.meta("m").numel(), 17 * 4) << "one float for each of 17 blocks";
  EXPECT_EQ(state.exp_avg().sizes(), parameters[0].sizes());
  EXPECT_TRUE(
      state.exp_avg().allclose(state_of<AdamWParamState>(plain, wide[0]).exp_avg(), 0.1, 1e-3));
  EXPECT_EQ(coded.memory_report().state_bytes(), 2 * (4200 + 17 * 4));
  EXPECT_EQ(plain.memory_report().state_bytes(), 2 * 4200 * 4);
}

TEST(ParamState, ValuesCanBeSet) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW optimizer(parameters, AdamWOptions().state("m", "int8"));
  train(optimizer, parameters, 1, 1);
  auto& state = state_of<AdamWParamState>(optimizer, parameters[0]);
  state.exp_avg(torch::full({70, 60}, 0.5)).exp_avg_sq(torch::full({70, 60}, 0.25)).step(10);
  EXPECT_TRUE(torch::equal(state.exp_avg(), torch::full({70, 60}, 0.5)));
  EXPECT_TRUE(torch::equal(state.value("v"), torch::full({70, 60}, 0.25)));
  EXPECT_EQ(state.step(), 10);
  EXPECT_HAS(argument_error([&] { state.exp_avg(torch::zeros({3})); }), "shape");
  EXPECT_HAS(argument_error([&] { state.value("w"); }), "Slots: m, v, vmax");
  state.exp_avg(torch::full({70, 60}, -0.5));
  EXPECT_HAS(argument_error([&] {
               state.exp_avg_sq(torch::full({70, 60}, -0.25));
             }),
             "exp_avg_sq: some are negative");
  EXPECT_TRUE(torch::equal(state.exp_avg_sq(), torch::full({70, 60}, 0.25)));
}

TEST(ParamState, ASlotThatWasDroppedCanBeSetAgain) {
  for (const char* codec : {"fp32", "int8"}) {
    Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
    AdamW optimizer(parameters, AdamWOptions().state(codec));
    train(optimizer, parameters, 1, 2);
    auto& state = state_of<AdamWParamState>(optimizer, parameters[0]);
    state.exp_avg(torch::Tensor());
    EXPECT_FALSE(state.exp_avg().defined());
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "lacks the slot exp_avg");
    EXPECT_HAS(argument_error([&] {
                 state.max_exp_avg_sq(torch::zeros({70, 60}));
               }),
               "max_exp_avg_sq does not exist under the optimizer's options");
    state.exp_avg(torch::full({70, 60}, 0.5));
    EXPECT_TRUE(torch::equal(state.exp_avg(), torch::full({70, 60}, 0.5))) << codec;
    const std::int64_t bytes = optimizer.memory_report().state_bytes();
    optimizer.step();
    EXPECT_EQ(state.step(), 3);
    EXPECT_EQ(optimizer.memory_report().state_bytes(), bytes)
        << "the values are stored in the optimizer's format";
  }
}

TEST(ParamState, StaysAsItIsIfAnArchiveIsDamaged) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW optimizer(parameters, AdamWOptions().state("int8"));
  train(optimizer, parameters, 1, 2);
  auto& state = state_of<AdamWParamState>(optimizer, parameters[0]);
  const torch::Tensor before = state.exp_avg().clone();
  torch::serialize::OutputArchive archive, formats(archive.compilation_unit());
  formats.write("schema", c10::IValue(std::int64_t{1000}));
  archive.write("step", c10::IValue(std::int64_t{9}));
  archive.write("jitstep", formats);
  torch::serialize::InputArchive in = reread(archive);
  EXPECT_HAS(argument_error([&] { state.serialize(in); }), "schema 1000");
  EXPECT_EQ(state.step(), 2);
  EXPECT_TRUE(torch::equal(state.exp_avg(), before));
  EXPECT_NO_THROW(optimizer.step());
}

TEST(ParamState, AStateMadeByTheProgramIsUsed) {
  Tensors ours = make_parameters(torch::kFloat64, {{4}}), theirs = clones(ours);
  Adam a(ours), b(theirs);
  train(b, theirs, 1, 3);
  ours[0].detach().copy_(theirs[0].detach());
  const auto& source = state_of<AdamParamState>(b, theirs[0]);
  auto made = std::make_unique<AdamParamState>();
  made->step(3).exp_avg(source.exp_avg().clone()).exp_avg_sq(source.exp_avg_sq().clone());
  a.state()[ours[0].unsafeGetTensorImpl()] = std::move(made);
  train(a, ours, 4, 6);
  train(b, theirs, 4, 6);
  expect_equal(ours, theirs);
  EXPECT_EQ(state_of<AdamParamState>(a, ours[0]).step(), 6);
}

TEST(ParamState, AnErasedStateStartsAgain) {
  Tensors parameters = make_parameters(), fresh;
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 2);
  optimizer.state().clear();
  fresh = clones(parameters);
  AdamW other(fresh);
  train(optimizer, parameters, 3, 5);
  train(other, fresh, 3, 5);
  expect_equal(parameters, fresh);
}

TEST(ParamState, ACloneHasTheSameClass) {
  AdamWParamState state;
  state.step(4).exp_avg(torch::ones({2}));
  const auto copy = state.clone();
  EXPECT_TRUE(static_cast<AdamWParamState&>(*copy) == state);
  EXPECT_NE(dynamic_cast<AdamWParamState*>(copy.get()), nullptr);
  state.step(5);
  EXPECT_FALSE(static_cast<AdamWParamState&>(*copy) == state);
}

TEST(ParamState, StateFollowsAParameterToAnotherDtypeAndLayout) {
  Tensors parameters = make_parameters(torch::kFloat32, {{6, 5}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 2);
  const auto before = state_of<AdamWParamState>(optimizer, parameters[0]).exp_avg().clone();
  parameters[0].set_data(parameters[0].detach().to(torch::kFloat64).t().contiguous().t());
  parameters[0].mutable_grad() = torch::zeros_like(parameters[0].detach());
  optimizer.step();
  const auto after = state_of<AdamWParamState>(optimizer, parameters[0]).exp_avg();
  EXPECT_EQ(after.scalar_type(), torch::kFloat64);
  EXPECT_TRUE(after.allclose(before.to(torch::kFloat64) * 0.9, 1e-6, 1e-9));
}

TEST(ParamState, FormatsCanBeChangedBetweenSteps) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 2);
  auto& options = static_cast<AdamWOptions&>(optimizer.param_groups()[0].options());
  options.state("int8").amsgrad(true);
  train(optimizer, parameters, 3, 3);
  const auto& state = state_of<AdamWParamState>(optimizer, parameters[0]);
  EXPECT_EQ(state.step(), 3);
  EXPECT_EQ(state.codes("vmax").numel(), 4200);
  EXPECT_GT(state.exp_avg_sq().sum().item<double>(), 0);
}

TEST(ParamState, CompileMakesNoState) {
  Tensors parameters = make_parameters(), same = clones(parameters);
  AdamW optimizer(parameters), other(same);
  optimizer.compile();
  EXPECT_TRUE(optimizer.state().empty());
  const auto compiled = kernel_statistics().compiled + kernel_statistics().from_disk;
  train(optimizer, parameters, 1, 2);
  EXPECT_EQ(kernel_statistics().compiled + kernel_statistics().from_disk, compiled);
  train(other, same, 1, 2);
  expect_equal(parameters, same);
}

TEST(ParamState, CompileAllocatesNoState) {
  Tensors parameters = make_parameters(torch::kFloat32, {{1 << 22}});
  AdamW optimizer(parameters, AdamWOptions().amsgrad(true));
  LAMB other(parameters, LAMBOptions().state("int8"));
  const CountedMemory memory;
  optimizer.compile();
  other.compile();
  EXPECT_LT(memory.largest, 1u << 20);
}

}  // namespace
}  // namespace jitstep::tests
