// State in host memory, for parameters on a CUDA device: steps on the CPU give the bits of steps on the device.
#include "optim_cuda/offload.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "optim_cuda/pinned_blocks.h"
#include "support/ptx_driver/control.h"

namespace jitstep::tests {
namespace {

constexpr const char* kInt8 = R"({"rule": "adamw", "state": "int8", "min_quantized_size": 0})";
constexpr const char* kClipped = R"({"rule": "adam", "options": {"max_grad_norm": 0.1}})";

class OffloadedBits : public ::testing::TestWithParam<const char*> {};

TEST_P(OffloadedBits, AreThoseOfTheDevice) {
  OffloadedPair pair(GetParam());
  const Tensors on_device = clones(pair.there);
  const auto device = Optimizer::from_spec(on_device, GetParam());
  train_same(*device, on_device, 1, 3);
  pair.train(1, 3);
  pair.expect_equal();
  expect_same_bits(on_device, to(pair.there, torch::kCPU));
  const ParamState& state = state_of(*pair.offloaded, pair.there[0]);
  EXPECT_EQ(state.step(), 3);
  EXPECT_TRUE(state.codes("m").is_cpu());
  EXPECT_TRUE(torch::equal(state.codes("m"), state_of(*device, on_device[0]).codes("m").cpu()));
}

INSTANTIATE_TEST_SUITE_P(
    Of, OffloadedBits,
    ::testing::Values(kInt8, kClipped,
                      R"({"rule": "lamb", "state": "int4", "min_quantized_size": 0})"));

TEST(OffloadedWeights, HaveTheResidualsOfTheDevice) {
  for (const char* format : {"master", "split16", "stochastic"}) {
    SCOPED_TRACE(format);
    OffloadedPair pair(
        std::string(R"({"rule": "sgd", "options": {"lr": 0.004}, "weights": ")") + format + "\"}",
        torch::kBFloat16);
    pair.train(1, 3);
    pair.expect_equal();
    const Tensors weights = pair.offloaded->fp32_weights();
    EXPECT_TRUE(weights[0].is_cuda());
    expect_same_bits(weights, pair.host->fp32_weights());
  }
}

TEST(OffloadedOptimizer, KeepsOnlyWhatIsCopiedInPinnedMemory) {
  const std::size_t before = pinned_blocks().size();
  OffloadedPair pair(kInt8);
  pair.train(1, 1);
  EXPECT_GT(pinned_blocks().size(), before);
  for (const std::size_t bytes : pinned_blocks()) EXPECT_TRUE(std::has_single_bit(bytes));
  const MemoryReport report = pair.offloaded->memory_report();
  EXPECT_EQ(report.state_bytes(), pair.host->memory_report().state_bytes());
  const auto bytes = static_cast<std::int64_t>(pair.there[0].nbytes());
  for (const auto kind : {MemoryReport::Kind::parameters, MemoryReport::Kind::gradients})
    EXPECT_EQ(std::count_if(
                  report.parameters[0].entries.begin(), report.parameters[0].entries.end(),
                  [&](const auto& entry) {
                    return entry.kind == kind && entry.name == "host copy" && entry.bytes == bytes;
                  }),
              1);
  EXPECT_FALSE(state_of(*pair.offloaded, pair.there[0]).codes("m").is_pinned());
}

// The allocator rounds sizes up to powers of two.
TEST(OffloadedOptimizer, SharesBlocksOfPinnedMemoryAmongParameters) {
  const auto total = [] {
    const std::vector<std::size_t> blocks = pinned_blocks();
    return std::accumulate(blocks.begin(), blocks.end(), std::size_t{0});
  };
  const std::size_t before = total();
  const Tensors parameters = to(
      make_parameters(torch::kFloat32, std::vector<std::vector<std::int64_t>>(40, {1040})), kGpu);
  AdamW optimizer(parameters);
  optimizer.offload();
  EXPECT_LE(total() - before, std::size_t{40 * 1040 * 4 * 8 / 5});
}

TEST(OffloadedOptimizer, SeesWhatOthersWriteToParameters) {
  OffloadedPair pair(kInt8);
  const torch::NoGradGuard no_grad;
  pair.train(1, 1);
  for (Tensors* all : {&pair.here, &pair.there}) (*all)[0].mul_(0.5);
  pair.train(2, 2);
  pair.expect_equal();
  for (Tensors* all : {&pair.here, &pair.there}) (*all)[1].set_data((*all)[1].detach() + 1);
  pair.train(3, 3);
  pair.expect_equal();
  for (Tensors* all : {&pair.here, &pair.there}) (*all)[0].data().clamp_(-0.1, 0.1);
  pair.offloaded->offload();
  pair.train(4, 4);
  pair.expect_equal();
}

TEST(OffloadedOptimizer, CopiesParametersToTheHostOnlyOnce) {
  OffloadedPair pair(kInt8);
  pair.train(1, 1);
  for (const torch::Tensor& p : pair.there) p.data().zero_();  // unseen, as the reference says
  pair.train(2, 2);
  pair.expect_equal();
}

TEST(OffloadedOptimizer, TakesOverStateFromTheDevice) {
  OffloadedPair pair(kInt8);
  const Tensors moving = clones(pair.there);
  const auto optimizer = Optimizer::from_spec(moving, kInt8);
  train_same(*optimizer, moving, 1, 2);
  optimizer->offload();
  EXPECT_TRUE(state_of(*optimizer, moving[0]).codes("m").is_cpu());
  train_same(*optimizer, moving, 3, 4);
  pair.train(1, 4);
  expect_same_bits(moving, pair.here);
}

TEST(OffloadedOptimizer, StepsParametersOnTheCpuToo) {
  const Tensors here = make_parameters(torch::kFloat32, {{40}, {50}});
  const Tensors mixed = {clones(here)[0], to(here, kGpu)[1]};
  const auto both = Optimizer::from_spec(mixed, kClipped),
             host = Optimizer::from_spec(here, kClipped);
  both->offload();  // max_grad_norm needs all on one device
  train_same(*both, mixed, 1, 2);
  train_same(*host, here, 1, 2);
  expect_same_bits(mixed, here);
}

TEST(OffloadedOptimizer, TakesParametersThatAreAddedLater) {
  for (const bool in_backward : {false, true}) {
    OffloadedPair pair(kInt8, torch::kFloat32, OffloadOptions().in_backward(in_backward));
    const Tensors more = make_parameters(torch::kFloat32, {{90}});
    pair.here.push_back(clones(more)[0]);
    pair.there.push_back(to(more, kGpu)[0]);
    pair.host->add_param_group(torch::optim::OptimizerParamGroup({pair.here.back()}));
    pair.offloaded->add_param_group(torch::optim::OptimizerParamGroup({pair.there.back()}));
    for (int step = 1; step <= 2; ++step) pair.backward(step), pair.step();
    pair.expect_equal();
  }
}

TEST(OffloadedOptimizer, ReadsNumbersOnTheDevice) {
  OffloadedPair pair(kInt8);
  const auto number = torch::tensor({0.002F});
  pair.host->set_lr(number);
  pair.offloaded->set_lr(number.to(kGpu));
  pair.train(1, 2);
  pair.expect_equal();
}

TEST(OffloadedOptimizer, ReadsInputs) {
  OffloadedPair pair(R"({"rule": "sophia"})");
  for (std::size_t i = 0; i < pair.here.size(); ++i) {
    const auto hessian = torch::ones_like(pair.here[i].detach());
    pair.host->set_input(pair.here[i], "hessian", hessian);
    pair.offloaded->set_input(pair.there[i], "hessian", hessian.to(kGpu));
  }
  pair.train(1, 2);
  pair.expect_equal();
}

TEST(OffloadedOptimizer, SwitchesModes) {
  OffloadedPair pair(R"({"rule": "schedulefree_sgd"})");
  pair.train(1, 2);
  for (Optimizer* one : {pair.host.get(), pair.offloaded.get()}) one->eval();
  pair.expect_equal();
  for (Optimizer* one : {pair.host.get(), pair.offloaded.get()}) one->train();
  pair.train(3, 3);
  pair.expect_equal();
}

TEST(OffloadedOptimizer, RunsHostTransformsOnTheCpu) {
  const std::string spec = R"({"rule": "muon", "options": {"lr": 0.01}})";
  const Tensors here = make_parameters(torch::kFloat32, {{12, 7}});
  const Tensors there = to(here, kGpu);
  const auto host = Optimizer::from_spec(here, spec), offloaded = Optimizer::from_spec(there, spec);
  offloaded->offload();
  train_same(*host, here, 1, 2);
  train_same(*offloaded, there, 1, 2);
  expect_same_bits(there, here);
}

TEST(OffloadedOptimizer, ClearsGradientsOnTheDevice) {
  OffloadedPair pair(kInt8);
  pair.offloaded->zero_grad_in_step();
  pair.train(1, 1);
  for (const torch::Tensor& p : pair.there) EXPECT_FALSE(p.grad().cpu().any().item<bool>());
  const auto shared = torch::ones({1}).to(kGpu).expand({300});
  pair.there[1].mutable_grad() = shared;
  EXPECT_HAS(argument_error([&] { pair.offloaded->step(); }), "group 0");
  pair.expect_equal();
}

TEST(OffloadedOptimizer, StepsInBackward) {
  OffloadedPair pair(kInt8);
  pair.offloaded->step_in_backward();
  for (int step = 1; step <= 2; ++step) {
    pair.backward(step);
    pair.host->step(), pair.host->zero_grad();
  }
  for (const torch::Tensor& p : pair.there) EXPECT_FALSE(p.grad().defined());
  pair.expect_equal();
}

TEST(OffloadedOptimizer, ListsKernelsOfTheCpu) {
  OffloadedPair pair(kInt8);
  for (const KernelReport& kernel : pair.offloaded->kernels()) EXPECT_EQ(kernel.device, "cpu");
}

TEST(OffloadedCheckpoints, LoadWithAndWithoutOffload) {
  OffloadedPair pair(kInt8);
  pair.train(1, 2);
  const Tensors elsewhere = clones(pair.there), again = clones(pair.there);
  const auto device = Optimizer::from_spec(elsewhere, kInt8);
  copy_through_archive(*pair.offloaded, *device);
  EXPECT_TRUE(state_of(*device, elsewhere[0]).codes("m").is_cuda());
  const auto offloaded = Optimizer::from_spec(again, kInt8);
  offloaded->offload();
  copy_through_archive(*device, *offloaded);
  EXPECT_TRUE(state_of(*offloaded, again[0]).codes("m").is_cpu());
  pair.train(3, 4);
  train_same(*device, elsewhere, 3, 4);
  train_same(*offloaded, again, 3, 4);
  expect_same_bits(elsewhere, pair.here);
  expect_same_bits(again, pair.here);
}

TEST(OffloadedCheckpoints, LoadFromAFolder) {
  const OwnFolder folder;
  OffloadedPair pair(kInt8);
  pair.train(1, 2);
  pair.offloaded->save_parts(folder.path + "/checkpoint", 2);
  const Tensors again = clones(pair.there);
  const auto resumed = Optimizer::from_spec(again, kInt8);
  resumed->offload();
  resumed->load(folder.path + "/checkpoint");
  pair.train(3, 3);
  train_same(*resumed, again, 3, 3);
  expect_same_bits(again, pair.here);
}

TEST(OffloadedCheckpoints, ChangeTheWeightFormat) {
  const std::string sgd = R"({"rule": "sgd", "options": {"lr": 0.004}, "weights": ")";
  OffloadedPair saved(sgd + "kahan\"}", torch::kBFloat16);
  OffloadedPair loaded(sgd + "split16\"}", torch::kBFloat16);
  saved.train(1, 3);
  const Warnings warnings;
  {
    const torch::NoGradGuard no_grad;
    for (Tensors* all : {&loaded.here, &loaded.there})
      for (const torch::Tensor& p : *all) p.mul_(0.001);
  }
  copy_through_archive(*saved.host, *loaded.host);
  copy_through_archive(*saved.offloaded, *loaded.offloaded);
  loaded.expect_equal();
  loaded.train(4, 4);
  loaded.expect_equal();
}

// ---- gradients that backward() copies -----------------------------------------------------------

OffloadOptions in_backward() { return OffloadOptions().in_backward(true); }

class OffloadedGradients : public ::testing::TestWithParam<torch::Dtype> {};

TEST_P(OffloadedGradients, OfMicroBatchesAddUpAsOnTheDevice) {
  OffloadedPair pair(kClipped, GetParam(), in_backward());
  for (int step = 0; step < 3; ++step) {
    for (int batch = 0; batch < 3; ++batch) {
      pair.backward(3 * step + batch);
      for (const torch::Tensor& p : pair.there) EXPECT_FALSE(p.grad().defined());
    }
    pair.step();
    pair.expect_equal();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OffloadedGradients,
                         ::testing::Values(torch::kFloat32, torch::kBFloat16));

// This device copies at once, so the test counts calls.
TEST(GradientsInBackward, AreCopiedAfterTheirStreamHasWrittenThem) {
  OffloadedPair pair(kClipped, torch::kFloat32, in_backward());
  const auto waits_of_backward = [&](int number) {
    const std::size_t before = ptx::driver::calls("cuStreamWaitEvent");
    backward_same(pair.there, number);
    return ptx::driver::calls("cuStreamWaitEvent") - before;
  };
  const std::size_t with_copies = waits_of_backward(1);
  pair.offloaded->offload();
  pair.offloaded->zero_grad();
  EXPECT_EQ(with_copies, waits_of_backward(1) + pair.there.size());
  backward_same(pair.here, 1);
  pair.step();
  pair.expect_equal();
}

TEST(GradientsInBackward, AreDroppedByZeroGrad) {
  OffloadedPair pair(kClipped, torch::kFloat32, in_backward());
  backward_same(pair.there, 7);
  pair.offloaded->zero_grad();
  pair.backward(8);
  pair.step();
  pair.expect_equal();
}

TEST(GradientsInBackward, MayBeAbsent) {
  OffloadedPair pair(kInt8, torch::kFloat32, in_backward());
  const auto some = [](const Tensors& all) { return Tensors(all.begin() + 1, all.end()); };
  for (int step = 0; step < 3; ++step) {
    backward_same(step == 1 ? some(pair.here) : pair.here, step);
    backward_same(step == 1 ? some(pair.there) : pair.there, step);
    pair.step();
  }
  pair.expect_equal();
  EXPECT_EQ(state_of(*pair.offloaded, pair.there[0]).step(), 2);
}

TEST(GradientsInBackward, WorkWithAGradScaler) {
  OffloadedPair pair(kInt8, torch::kFloat32, in_backward());
  GradScaler here(GradScalerOptions().init_scale(4)), there(GradScalerOptions().init_scale(4));
  const auto scaled = [](const Tensors& parameters, GradScaler& scaler, double factor) {
    torch::Tensor loss = torch::zeros({}).to(parameters[0].device());
    for (const torch::Tensor& p : parameters) loss = loss + p.square().sum() * factor;
    scaler.scale(loss).backward();
  };
  for (const double factor : {0.5, std::numeric_limits<double>::infinity(), 0.25}) {
    scaled(pair.here, here, factor), scaled(pair.there, there, factor);
    EXPECT_HAS(argument_error([&] { there.unscale_(*pair.offloaded); }), "unscale_()");
    here.step(*pair.host), there.step(*pair.offloaded);
    here.update(), there.update();
    pair.host->zero_grad();
    pair.expect_equal();
    EXPECT_EQ(there.get_scale(), here.get_scale());
  }
  EXPECT_EQ(state_of(*pair.offloaded, pair.there[0]).step(), 2);
}

// ---- errors -------------------------------------------------------------------------------------

TEST(OffloadErrors, NameCapturesAndCapturable) {
  OffloadedPair pair(kInt8);
  set_same_gradients(pair.there, 1);
  pair.offloaded->capturable();
  EXPECT_HAS(argument_error([&] { pair.offloaded->step(); }), "capturable(");
  pair.offloaded->capturable(false);
  const c10::StreamGuard other(side_stream());
  void* const stream = current_stream().native_handle();
  void* graph = nullptr;
  driver_function<int(void*, int)>("cuStreamBeginCapture_v2")(stream, 1);
  const std::string error = argument_error([&] { pair.offloaded->step(); });
  driver_function<int(void*, void**)>("cuStreamEndCapture")(stream, &graph);
  driver_function<int(void*)>("cuGraphDestroy")(graph);
  EXPECT_HAS(error, "capture");
  pair.train(1, 1);
  pair.expect_equal();
}

TEST(OffloadErrors, NameTheOtherOwnerOfGradients) {
  OffloadedPair pair(kInt8);
  {
    const GradAccumulator sums(pair.there);
    EXPECT_HAS(argument_error([&] { pair.offloaded->offload(in_backward()); }), "gradients");
    EXPECT_FALSE(pair.offloaded->copies_in_backward());
  }
  pair.offloaded->offload(in_backward());
  EXPECT_TRUE(pair.offloaded->copies_in_backward());
  EXPECT_HAS(argument_error([&] { pair.offloaded->step_in_backward(); }), "gradients");
  const auto second = Optimizer::from_spec(pair.there, kInt8);
  EXPECT_HAS(argument_error([&] { second->offload(in_backward()); }), "gradients");
  EXPECT_FALSE(second->is_offloaded());
  train_same(*second, pair.there, 1, 1);
}

TEST(OffloadErrors, NameGradientsThatBackwardDidNotCompute) {
  OffloadedPair pair(kClipped, torch::kFloat32, in_backward());
  pair.backward(1);
  pair.there[1].mutable_grad() = torch::ones({300}).to(kGpu);
  EXPECT_HAS(argument_error([&] { pair.offloaded->step(); }), "zero_grad()");
  pair.there[1].mutable_grad().reset();
  pair.step();
  pair.expect_equal();
}

// The copied gradient is in the memory order that the parameter had in backward().
TEST(OffloadErrors, NameParametersWhoseMemoryOrderChangedAfterBackward) {
  OffloadedPair pair(kInt8, torch::kFloat32, in_backward());
  pair.backward(1);
  for (const Tensors& all : {pair.here, pair.there}) {
    torch::Tensor p = all[0];
    p.set_data(p.detach().t().contiguous().t());
  }
  EXPECT_HAS(argument_error([&] { pair.offloaded->step(); }), "memory order");
  EXPECT_HAS(argument_error([&] { backward_same(pair.there, 2); }), "memory order");
  for (const torch::Tensor& p : pair.there) p.mutable_grad().reset();
  pair.host->zero_grad(), pair.offloaded->zero_grad();
  pair.backward(2);
  pair.step();
  pair.expect_equal();
}

TEST(OffloadErrors, KeepParametersThatGetTheirOldMemoryOrderBack) {
  OffloadedPair pair(kInt8, torch::kFloat32, in_backward());
  pair.backward(1);
  pair.step();
  pair.backward(2);
  torch::Tensor p = pair.there[0];
  const torch::Tensor old = p.detach();
  p.set_data(old.t().contiguous().t());
  EXPECT_HAS(argument_error([&] { backward_same(pair.there, 3); }), "memory order");
  for (torch::Tensor one : pair.there) one.mutable_grad().reset();
  p.set_data(old);
  pair.host->zero_grad(), pair.offloaded->zero_grad();
  pair.backward(4);
  pair.step();
  pair.expect_equal();
}

// Strides of dimensions with one element have no meaning.
TEST(GradientsInBackward, RemainIfOnlyTheStrideOfASingleElementChanges) {
  OffloadedPair pair(kInt8, torch::kFloat32, in_backward());
  for (Tensors* all : {&pair.here, &pair.there})
    for (torch::Tensor& p : *all)
      if (p.dim() == 2) p.set_data(p.detach().view({37, 29, 1, 1}));
  pair.offloaded->offload(in_backward());
  pair.backward(1);
  for (Tensors* all : {&pair.here, &pair.there})
    (*all)[0].set_data((*all)[0].detach().as_strided({37, 29, 1, 1}, {29, 1, 29, 29}));
  pair.step();
  pair.expect_equal();
}

TEST(GradientsInBackward, RemainIfTheParameterGetsAnotherDtype) {
  OffloadedPair pair(kInt8, torch::kFloat32, in_backward());
  pair.backward(1);
  for (const Tensors& all : {pair.here, pair.there}) {
    torch::Tensor p = all[0];
    p.set_data(p.detach().to(torch::kBFloat16));
  }
  pair.step();
  pair.expect_equal();
}

TEST(OffloadErrors, NameGroupsThatChangedBeforeBackward) {
  OffloadedPair pair(kClipped, torch::kFloat32, in_backward());
  pair.offloaded->param_groups()[0].params().pop_back();
  EXPECT_HAS(argument_error([&] { backward_same(pair.there, 1); }), "offload()");
  EXPECT_TRUE(std::any_of(pair.there.begin(), pair.there.end(),
                          [](const torch::Tensor& p) { return p.grad().defined(); }));
  pair.offloaded->param_groups()[0].params().push_back(pair.there.back());
  for (const torch::Tensor& p : pair.there) p.mutable_grad().reset();
  pair.offloaded->zero_grad();
  pair.backward(2);
  pair.step();
  pair.expect_equal();
}

}  // namespace
}  // namespace jitstep::tests
