// State tensors that users got from the optimizer and changed, before the next step or after many steps.
#include <functional>
#include <map>

#include "jitstep/param_state.h"
#include "optim/state/param_state_data.h"
#include "optim/training.h"

namespace jitstep::tests {
namespace {

AdamWParamState& adamw_state(AdamW& optimizer, const torch::Tensor& p) {
  return static_cast<AdamWParamState&>(*optimizer.state().at(p.unsafeGetTensorImpl()));
}

// Gives a tensor new storage with the same values, and steps.
void expect_written_elsewhere(Optimizer& optimizer, const Tensors& parameters,
                              const std::string& way, torch::Tensor given) {
  SCOPED_TRACE(way);
  train(optimizer, parameters, 2, 3);
  given.set_data(given.clone());
  const torch::Tensor before = given.clone();
  train(optimizer, parameters, 4, 4);
  EXPECT_FALSE(torch::equal(given, before)) << "the step wrote to the tensor's old storage";
}

TEST(UserModifiedState, NewStorageIsUsedHoweverTheProgramGotTheTensor) {
  using Way = std::function<torch::Tensor(AdamWParamState&)>;
  const std::map<std::string, Way> ways = {
      {"by torch's name", [](auto& state) { return state.exp_avg(); }},
      {"by name", [](auto& state) { return state.value("m"); }},
      {"codes", [](auto& state) { return state.codes("v"); }},
      {"scales", [](auto& state) { return state.meta("v"); }},
      {"a copy's", [](auto& state) { return AdamWParamState(state).exp_avg(); }},
      {"an assigned one's",
       [](auto& state) {
         AdamWParamState other;
         other = state;
         return other.exp_avg();
       }},
      {"a clone's",
       [](auto& state) { return static_cast<AdamWParamState&>(*state.clone()).exp_avg(); }}};
  for (const auto& [name, way] : ways) {
    Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
    AdamW optimizer(parameters, AdamWOptions(0.1).state("v", "int8"));
    train(optimizer, parameters, 1, 1);
    expect_written_elsewhere(optimizer, parameters, name,
                             way(adamw_state(optimizer, parameters[0])));
  }
}

TEST(UserModifiedState, AMovedStateStaysMarkedAsEscaped) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  auto& held = optimizer.state().at(parameters[0].unsafeGetTensorImpl());
  auto& state = static_cast<AdamWParamState&>(*held);
  const torch::Tensor given = state.exp_avg();
  held = std::make_unique<AdamWParamState>(std::move(state));
  expect_written_elsewhere(optimizer, parameters, "moved", given);
}

TEST(UserModifiedState, ChangedAuxStateIsUsed) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}}), twin = clones(parameters);
  Adafactor optimizer(parameters, AdafactorOptions()), other(twin, AdafactorOptions());
  train(optimizer, parameters, 1, 1);
  train(other, twin, 1, 1);
  auto& state =
      static_cast<ParamState&>(*optimizer.state().at(parameters[0].unsafeGetTensorImpl()));
  state.data().escaped.set();
  const auto buffers = state.data().buffers.aux_state.at(0).buffers;
  train(optimizer, parameters, 2, 3);
  train(other, twin, 2, 3);
  for (torch::Tensor half : buffers) half.set_data(half * 4);
  train(optimizer, parameters, 4, 4);
  train(other, twin, 4, 4);
  EXPECT_FALSE(torch::equal(parameters[0], twin[0])) << "the step read the old values";
}

TEST(UserModifiedState, AParameterWithNewMetadataIsNoticedAfterARejectedStep) {
  Tensors parameters = make_parameters(torch::kFloat32, {{40, 30}, {50}}),
          twin = clones(parameters);
  AdamW optimizer(parameters), other(twin);
  train(optimizer, parameters, 1, 2);
  train(other, twin, 1, 2);
  for (Tensors* of : {&parameters, &twin})
    of->at(0).set_data(of->at(0).detach().t().contiguous().t());
  set_gradients(parameters, 3);
  const torch::Tensor gradient = parameters[1].grad();
  parameters[1].mutable_grad() = parameters[0].detach().t().flatten().slice(0, 0, 50);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "shares memory with parameter 0");
  parameters[1].mutable_grad() = gradient;
  optimizer.step();
  train(other, twin, 3, 3);
  train(optimizer, parameters, 4, 5);
  train(other, twin, 4, 5);
  expect_equal(parameters, twin);
}

TEST(UserModifiedState, StorageAssignedToASlotIsUsedAsInTorch) {
  Tensors ours = make_parameters(torch::kFloat64, {{40, 40}}), theirs = clones(ours);
  AdamW a(ours, AdamWOptions(0.1));
  torch::optim::AdamW b(theirs, torch::optim::AdamWOptions(0.1));
  const std::vector<std::function<torch::Tensor()>> storages = {
      [] {
        return torch::rand({40, 40}, torch::kFloat64);
      },
      [] {
        return torch::rand({40, 40}, torch::kFloat64).t();
      },
      [] {
        return torch::rand({40, 80}, torch::kFloat64).slice(1, 0, 80, 2);
      },
      [] {
        return torch::rand({40, 40});
      }};
  int step = 1;
  for (const auto& storage : storages) {
    train(a, ours, step, step);
    train(b, theirs, step, step);
    const torch::Tensor other = storage();
    adamw_state(a, ours[0]).exp_avg().set_data(other.clone());
    adamw_state(a, ours[0]).exp_avg_sq().set_data(other.abs());
    auto& torchs =
        static_cast<torch::optim::AdamWParamState&>(*b.state().at(theirs[0].unsafeGetTensorImpl()));
    torchs.exp_avg(other.to(torch::kFloat64)).exp_avg_sq(other.to(torch::kFloat64).abs());
    train(a, ours, step + 1, step + 2);
    train(b, theirs, step + 1, step + 2);
    step += 3;
    expect_close(ours, theirs, 1e-9, 1e-9);
    EXPECT_EQ(adamw_state(a, ours[0]).step(), step - 1);
  }
  // The same storage read as its transpose.
  adamw_state(a, ours[0]).exp_avg().t_();
  auto& torchs =
      static_cast<torch::optim::AdamWParamState&>(*b.state().at(theirs[0].unsafeGetTensorImpl()));
  torchs.exp_avg(torchs.exp_avg().t());
  train(a, ours, step, step);
  train(b, theirs, step, step);
  expect_close(ours, theirs, 1e-9, 1e-9);
}

TEST(UserModifiedState, StorageWithTheSlotsMetadataIsUsedDirectly) {
  Tensors parameters = make_parameters(torch::kFloat32, {{40, 30}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  const auto other = torch::ones({40, 30});
  adamw_state(optimizer, parameters[0]).exp_avg().set_data(other);
  train(optimizer, parameters, 2, 2);
  EXPECT_FALSE(torch::equal(other, torch::ones({40, 30}))) << "the step wrote to other storage";
}

// Gives the codes and scales of both slots copies of the other state's as their storage. Returns the old storage, and
// then the new one.
std::pair<Tensors, Tensors> give_codes(AdamWParamState& state, const AdamWParamState& other) {
  Tensors old, given;
  const auto give = [&](torch::Tensor held, const torch::Tensor& theirs) {
    EXPECT_FALSE(torch::equal(held, theirs)) << "the test needs other values";
    old.push_back(held.detach());
    given.push_back(theirs.clone());
    held.set_data(given.back());
  };
  for (const char* slot : {"m", "v"}) {
    give(state.codes(slot), other.codes(slot));
    give(state.meta(slot), other.meta(slot));
  }
  return {old, given};
}

TEST(UserModifiedState, CodesThatAreSetAreUsed) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}}), twin = clones(parameters);
  AdamW optimizer(parameters, AdamWOptions(0.1).state("int8")),
      other(twin, AdamWOptions(0.1).state("int8"));
  train(optimizer, parameters, 1, 2);
  train(other, twin, 11, 12);
  twin[0].detach().copy_(parameters[0].detach());
  const auto& [old, given] =
      give_codes(adamw_state(optimizer, parameters[0]), adamw_state(other, twin[0]));
  const Tensors old_values = clones(old), given_values = clones(given);
  train(optimizer, parameters, 3, 4);
  train(other, twin, 3, 4);
  expect_equal(parameters, twin);
  expect_equal(old, old_values);
  for (std::size_t i = 0; i < given.size(); ++i)
    EXPECT_FALSE(torch::equal(given[i], given_values[i])) << "the step wrote to other storage";
}

TEST(UserModifiedState, StorageThatDoesNotFitIsRejectedBeforeAnythingIsWritten) {
  using Change = std::function<void(AdamWParamState&)>;
  const std::vector<std::pair<Change, const char*>> changes = {
      {[](auto& state) {
         state.exp_avg().set_data(torch::zeros({70, 59}));
       },
       "shape [70, 59]"},
      {[](auto& state) {
         state.exp_avg().set_data(torch::zeros({70, 60}, torch::kInt64));
       },
       "floating-point"},
      {[](auto& state) { state.exp_avg().resize_({3}); }, "shape [3]"},
      {[](auto& state) { state.exp_avg().storage().unsafeGetStorageImpl()->set_nbytes(0); },
       "was freed"},
      {[](auto& state) { state.codes("v").set_data(torch::zeros({3}, torch::kUInt8)); },
       "4200 bytes of codes"},
      {[](auto& state) { state.meta("v").set_data(torch::zeros({1}, torch::kUInt8)); },
       "68 bytes of scales"},
      {[](auto& state) { state.codes("v").set_data(torch::zeros({4200})); }, "bytes of codes"},
  };
  for (const auto& [change, part] : changes) {
    Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}, {9}});
    AdamW optimizer(parameters, AdamWOptions(0.1).state("v", "int8"));
    train(optimizer, parameters, 1, 2);
    change(adamw_state(optimizer, parameters[0]));
    const Tensors before = clones(parameters);
    set_gradients(parameters, 3);
    for (int attempt = 0; attempt < 2; ++attempt)
      EXPECT_HAS(argument_error([&] { optimizer.step(); }), part);
    expect_equal(parameters, before);
    optimizer.state().erase(parameters[0].unsafeGetTensorImpl());
    EXPECT_NO_THROW(optimizer.step());
  }
}

TEST(UserModifiedState, CodesThatDoNotFitAreNotDecoded) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW optimizer(parameters, AdamWOptions(0.1).state("int8"));
  train(optimizer, parameters, 1, 1);
  auto& state = adamw_state(optimizer, parameters[0]);
  state.codes("m").set_data(torch::zeros({5}, torch::kUInt8));
  EXPECT_HAS(argument_error([&] { state.exp_avg(); }), "4200 bytes of codes");
  state.exp_avg(torch::ones({70, 60}));
  EXPECT_TRUE(torch::equal(state.exp_avg(), torch::ones({70, 60})))
      << "setting values repairs the slot";
  EXPECT_NO_THROW(optimizer.step());
}

TEST(UserModifiedState, SettingValuesReplacesASlotOfAnotherShape) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  auto& state = adamw_state(optimizer, parameters[0]);
  state.exp_avg().resize_({10});
  state.exp_avg(torch::ones({70, 60}));
  EXPECT_NO_THROW(optimizer.step());
}

TEST(UserModifiedState, SlotsThatShareMemoryAreRejectedBeforeAnythingIsWritten) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}, {70, 60}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  auto& state = adamw_state(optimizer, parameters[0]);
  const Tensors before = clones(parameters);
  const torch::Tensor own = state.exp_avg().clone();
  for (const torch::Tensor& other : {parameters[0].detach(), state.exp_avg_sq()}) {
    state.exp_avg().set_data(other);
    EXPECT_HAS(argument_error([&] { optimizer.step(); }), "share memory");
    state.exp_avg().set_data(own.clone());
  }
  state.exp_avg().set_data(adamw_state(optimizer, parameters[1]).exp_avg());
  EXPECT_FALSE(argument_error([&] { optimizer.step(); }).empty());
  expect_equal(parameters, before);
}

TEST(UserModifiedState, FreedStorageIsAnError) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  Adafactor optimizer(parameters, AdafactorOptions());
  train(optimizer, parameters, 1, 1);
  auto& state =
      static_cast<ParamState&>(*optimizer.state().at(parameters[0].unsafeGetTensorImpl()));
  auto* const storage = state.aux_state("row").storage().unsafeGetStorageImpl();
  storage->reset();
  storage->set_nbytes(0);
  EXPECT_HAS(argument_error([&] { optimizer.step(); }), "\"row\" was freed");
}

TEST(UserModifiedState, UnreadableSlotsAreNotSavedOverAValidFile) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  for (const char* codec : {"fp32", "int8"}) {
    AdamW optimizer(parameters, AdamWOptions().state(codec));
    train(optimizer, parameters, 1, 1);
    const std::string file = own_file("whole.pt", "");
    optimizer.save(file);
    const std::string before = text_of_file(file);
    adamw_state(optimizer, parameters[0]).codes("m").resize_({7});
    EXPECT_HAS(argument_error([&] { optimizer.save(file); }), "the slot exp_avg");
    EXPECT_EQ(text_of_file(file), before);
  }
}

// ---- states that the program moved or copied into another optimizer ----

TEST(MovedStates, GetAnIdThatNoOtherParameterHas) {
  for (const bool first : {true, false}) {
    Tensors p = make_parameters(torch::kFloat32, {{70, 60}, {5}, {40}});
    AdamW old({p[0], p[1]});
    train(old, {p[0], p[1]}, 1, 1);
    const Tensors now = first ? Tensors{p[1], p[2]} : Tensors{p[2], p[1]};
    AdamW optimizer(now, AdamWOptions().max_grad_norm(1));
    auto* const key = p[1].unsafeGetTensorImpl();
    optimizer.state()[key] = std::move(old.state()[key]);
    train(optimizer, now, 2, 3);
    EXPECT_NE(adamw_state(optimizer, p[1]).id(), adamw_state(optimizer, p[2]).id());
    EXPECT_EQ(adamw_state(optimizer, p[1]).step(), 3);
    const std::string file = own_file("moved.pt", "");
    optimizer.save(file);
    EXPECT_NO_THROW(optimizer.load(file));
  }
}

TEST(MovedStates, DoNotShareAnIdWithAParameterOfALaterFirstGradient) {
  Tensors p = make_parameters(torch::kFloat32, {{5}, {40}});
  AdamW old({p[0], p[1]});
  train(old, p, 1, 1);
  AdamW optimizer({p[1], p[0]});
  auto* const key = p[1].unsafeGetTensorImpl();
  optimizer.state()[key] = old.state()[key]->clone();
  set_gradients({p[1]}, 2);
  p[0].mutable_grad() = torch::Tensor();
  optimizer.step();
  train(optimizer, p, 3, 3);
  EXPECT_EQ(adamw_state(optimizer, p[1]).id(), 1) << "the state must keep its id";
  EXPECT_NE(adamw_state(optimizer, p[0]).id(), 1);
}

TEST(UserModifiedState, ACopyOnWriteCopyOfASlotKeepsItsValues) {
  Tensors parameters = make_parameters(torch::kFloat32, {{70, 60}});
  AdamW optimizer(parameters);
  train(optimizer, parameters, 1, 1);
  const auto copy = adamw_state(optimizer, parameters[0]).exp_avg()._lazy_clone();
  const auto values = copy.clone();
  train(optimizer, parameters, 2, 2);
  EXPECT_TRUE(torch::equal(copy, values));
}

}  // namespace
}  // namespace jitstep::tests
