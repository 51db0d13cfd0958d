// Offloaded optimizers whose parameters come, go and change: their copies in host memory, and hooks on them.
#include <jitstep/grad_accumulator.h>

#include <numeric>
#include <utility>

#include "optim_cuda/offload.h"
#include "optim_cuda/pinned_blocks.h"

namespace jitstep::tests {
namespace {

using torch::optim::OptimizerParamGroup;

constexpr const char* kSgd = R"({"rule": "sgd", "options": {"lr": 0.5}})";
constexpr const char* kClipped = R"({"rule": "adam", "options": {"max_grad_norm": 0.1}})";

std::size_t pinned_bytes() {
  const std::vector<std::size_t> blocks = pinned_blocks();
  return std::accumulate(blocks.begin(), blocks.end(), std::size_t{0});
}

Tensors made_on_gpu(std::vector<std::vector<std::int64_t>> shapes,
                    torch::Dtype dtype = torch::kFloat32) {
  return to(make_parameters(dtype, std::move(shapes)), kGpu);
}

Tensors both(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void* key_of(const torch::Tensor& p) { return p.unsafeGetTensorImpl(); }

void forget_state(Optimizer& optimizer, const torch::Tensor& p) {
  optimizer.state().erase(key_of(p));
}

// A parameter in the memory of `base`, at this address if an allocator gives it to a new tensor.
torch::Tensor parameter_at(const void* address, const torch::Tensor& base) {
  Tensors made;
  for (int i = 0; i < 1000; ++i) {
    made.push_back(base.variable_data().set_requires_grad(true));
    if (key_of(made.back()) == address) break;
  }
  return made.back();
}

// ---- copies in host memory ----------------------------------------------------------------------

TEST(OffloadedParameters, FreeTheirCopiesWhenTheyLeaveTheGroups) {
  const Tensors kept = made_on_gpu({{40}});
  const auto optimizer = Optimizer::from_spec(kept, kSgd);
  optimizer->offload();
  train_same(*optimizer, kept, 1, 1);
  const std::size_t alone = pinned_bytes();
  const Tensors adapters = made_on_gpu({{300, 100}, {300, 100}});
  optimizer->add_param_group(OptimizerParamGroup(adapters));
  train_same(*optimizer, both(kept, adapters), 2, 2);
  EXPECT_GE(pinned_bytes(), alone + 4 * adapters[0].nbytes());
  const std::size_t all = pinned_bytes();
  optimizer->param_groups().pop_back();
  train_same(*optimizer, kept, 3, 3);
  EXPECT_LT(pinned_bytes(), all);
  for (const torch::Tensor& p : adapters) forget_state(*optimizer, p);
  train_same(*optimizer, kept, 4, 4);
  EXPECT_EQ(pinned_bytes(), alone);
}

TEST(OffloadedParameters, TakeTheMemoryOfRemovedOnes) {
  Tensors there = made_on_gpu({{200}, {10}});
  const auto optimizer = Optimizer::from_spec(there, kSgd);
  optimizer->offload();
  train_same(*optimizer, there, 1, 1);
  const std::size_t bytes = pinned_bytes();
  for (int step = 2; step <= 20; ++step) {
    forget_state(*optimizer, there[0]);
    there[0] = made_on_gpu({{200}})[0];
    optimizer->param_groups()[0].params()[0] = there[0];
    train_same(*optimizer, there, step, step);
    EXPECT_EQ(pinned_bytes(), bytes) << "step " << step;
  }
}

TEST(OffloadedParameters, FreeTheirCopiesInAnotherLayout) {
  const Tensors here = make_parameters(torch::kFloat32, {{37, 29}}), there = to(here, kGpu);
  const auto host = Optimizer::from_spec(here, kSgd), offloaded = Optimizer::from_spec(there, kSgd);
  const std::size_t before = pinned_bytes();
  offloaded->offload();
  for (int step = 1; step <= 41; ++step) {
    for (const torch::Tensor& p : {here[0], there[0]}) {
      const torch::Tensor now = p.detach().cpu();
      const torch::Tensor next = step % 2 == 0 ? now.contiguous() : now.t().contiguous().t();
      p.set_data(next.to(p.device()));
    }
    train_same(*host, here, step, step);
    train_same(*offloaded, there, step, step);
  }
  expect_same_bits(there, here);
  EXPECT_EQ(there[0].strides(), here[0].strides());
  EXPECT_LE(pinned_bytes() - before, 16 * there[0].nbytes());
}

TEST(OffloadedParameters, FreeTheirCopiesOnTheCpu) {
  const Tensors here = make_parameters(torch::kFloat32, {{300}}), moving = to(here, kGpu);
  const auto host = Optimizer::from_spec(here, kSgd),
             offloaded = Optimizer::from_spec(moving, kSgd);
  const std::size_t before = pinned_bytes();
  offloaded->offload();
  train_same(*offloaded, moving, 1, 1);
  EXPECT_GT(pinned_bytes(), before);
  moving[0].set_data(moving[0].detach().cpu());
  train_same(*offloaded, moving, 2, 3);
  EXPECT_EQ(pinned_bytes(), before);
  train_same(*host, here, 1, 3);
  expect_equal(moving, here);
}

TEST(OffloadedParameters, LeaveTheMemoryThatTheirStateReads) {
  Tensors there = made_on_gpu({{200}, {10}}, torch::kBFloat16);
  const auto optimizer = Optimizer::from_spec(
      there, R"({"rule": "sgd", "options": {"lr": 0.5}, "weights": "split16"})");
  optimizer->offload();
  train_same(*optimizer, there, 1, 1);
  const ParamState& state = state_of(*optimizer, there[0]);
  const torch::Tensor weights = state.weights().clone();
  there[0] = made_on_gpu({{200}}, torch::kBFloat16)[0];
  optimizer->param_groups()[0].params()[0] = there[0];
  train_same(*optimizer, there, 2, 4);
  EXPECT_TRUE(torch::equal(state.weights(), weights));
}

// The copy of the freed parameter has the address, memory and version number of the new one.
TEST(OffloadedParameters, KeepTheirValuesInThePlaceOfFreedOnes) {
  for (const bool steps_between : {false, true}) {
    SCOPED_TRACE(steps_between);
    const torch::Tensor base = torch::ones({50}).to(kGpu);
    const Tensors kept = made_on_gpu({{40}});
    Tensors old = {base.variable_data().set_requires_grad(true)};
    const void* const address = key_of(old[0]);
    const auto optimizer = Optimizer::from_spec(both(kept, old), kSgd);
    optimizer->offload();
    auto& parameters = optimizer->param_groups()[0].params();
    parameters.pop_back();
    old.clear();
    if (steps_between) train_same(*optimizer, kept, 1, 1);
    base.fill_(2);
    const torch::Tensor fresh = parameter_at(address, base);
    parameters.push_back(fresh);
    fresh.mutable_grad() = torch::ones({50}).to(kGpu);
    optimizer->step();
    EXPECT_TRUE(torch::equal(fresh.detach().cpu(), torch::full({50}, 1.5)));
  }
}

TEST(OffloadedParameters, DoNotTakeTheStateOfFreedOnes) {
  const torch::Tensor base = torch::ones({50}).to(kGpu);
  const Tensors kept = made_on_gpu({{40}});
  Tensors old = {base.variable_data().set_requires_grad(true)};
  const void* const address = key_of(old[0]);
  const auto optimizer = Optimizer::from_spec(both(kept, old), kSgd);
  optimizer->offload();
  train_same(*optimizer, both(kept, old), 1, 1);
  auto& parameters = optimizer->param_groups()[0].params();
  parameters.pop_back();
  old.clear();
  train_same(*optimizer, kept, 2, 2);
  const torch::Tensor fresh = parameter_at(address, base);
  parameters.push_back(fresh);
  train_same(*optimizer, {kept[0], fresh}, 3, 3);
  EXPECT_EQ(state_of(*optimizer, fresh).step(), 1);
}

// ---- hooks for gradients in backward() ----------------------------------------------------------

OffloadOptions in_backward() { return OffloadOptions().in_backward(true); }

void expect_copies(OffloadedPair& pair) {
  EXPECT_TRUE(pair.offloaded->copies_in_backward());
  pair.backward(1);
  for (const torch::Tensor& p : pair.there) EXPECT_FALSE(p.grad().defined());
  pair.step();
  pair.expect_equal();
}

TEST(HooksOfOffload, RemainIfParametersCannotBeAdded) {
  OffloadedPair pair(kClipped, torch::kFloat32, in_backward());
  const Tensors other = made_on_gpu({{7}});
  const GradAccumulator sums(other);
  EXPECT_HAS(argument_error([&] { pair.offloaded->add_param_group(OptimizerParamGroup(other)); }),
             "already go to a GradAccumulator");
  EXPECT_HAS(argument_error([&] { pair.offloaded->add_parameters(other); }),
             "already go to a GradAccumulator");
  EXPECT_EQ(pair.offloaded->param_groups().size(), 1u);
  EXPECT_EQ(pair.offloaded->parameters().size(), pair.there.size());
  expect_copies(pair);
}

TEST(HooksOfOffload, RemainIfAGroupGotAParameterOfAnotherOwner) {
  OffloadedPair pair(kClipped, torch::kFloat32, in_backward());
  const Tensors other = made_on_gpu({{7}});
  const GradAccumulator sums(other);
  auto& parameters = pair.offloaded->param_groups()[0].params();
  parameters.push_back(other[0]);
  EXPECT_HAS(argument_error([&] { pair.offloaded->offload(in_backward()); }),
             "already go to a GradAccumulator");
  parameters.pop_back();
  expect_copies(pair);
}

TEST(HooksOfOffload, RemainIfAParameterOfAnotherOwnerMovesToTheGpu) {
  const Tensors moving = make_parameters(torch::kFloat32, {{7}});
  const Tensors there = made_on_gpu({{30}}), more = made_on_gpu({{5}});
  const auto optimizer = Optimizer::from_spec(both(there, moving), kClipped);
  optimizer->offload(in_backward());
  const GradAccumulator sums(moving);
  moving[0].set_data(moving[0].detach().to(kGpu));
  EXPECT_HAS(argument_error([&] { optimizer->offload(in_backward()); }),
             "already go to a GradAccumulator");
  EXPECT_HAS(argument_error([&] { optimizer->add_parameters(more); }),
             "already go to a GradAccumulator");
  EXPECT_EQ(optimizer->parameters().size(), 2u);
  EXPECT_TRUE(optimizer->copies_in_backward());
  backward_same(there, 1);
  EXPECT_FALSE(there[0].grad().defined());
}

TEST(HooksOfOffload, FollowParametersToAnotherGroup) {
  OffloadedPair pair(kSgd, torch::kFloat32, in_backward());
  auto& groups = pair.offloaded->param_groups();
  groups[0].params().pop_back();
  groups.push_back(OptimizerParamGroup(Tensors{pair.there.back()}));
  pair.offloaded->offload(in_backward());
  expect_copies(pair);
}

}  // namespace
}  // namespace jitstep::tests
