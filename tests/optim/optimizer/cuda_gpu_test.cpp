// Behavior that only a GPU shows: streams, captures, memory, several devices, fork().
#include "optim/optimizer/cuda.h"

#include <sys/wait.h>
#include <unistd.h>

namespace jitstep::tests {
namespace {

// Two copies of the same training on a GPU.
struct Twins {
  Tensors a, b;
  AdamW one, other;
  explicit Twins(const AdamWOptions& options = AdamWOptions(0.01).state("int8"))
      : a(to(make_parameters(torch::kFloat32, {{70000}, {300, 7}}), kGpu)),
        b(clones(a)),
        one(a, options),
        other(b, options) {}
};

TEST(CudaDevices, ANormOverSeveralDevicesIsRejectedBeforeAnythingChanges) {
  Tensors parameters = make_parameters(torch::kFloat32, {{300}, {200}});
  parameters[1] = to({parameters[1]}, kGpu)[0];
  AdamW clipped(parameters, AdamWOptions(0.1).max_grad_norm(1)),
      free(parameters, AdamWOptions(0.1));
  const Tensors before = to(parameters, torch::kCPU);
  set_gradients(parameters, 1);
  EXPECT_HAS(argument_error([&] { clipped.step(); }), "clip_grad_norm_");
  expect_equal(to(parameters, torch::kCPU), before);
  EXPECT_NO_THROW(free.step());
}

TEST(CudaStreams, AStepRunsOnTheCurrentStreamAfterEarlierWork) {
  Twins twins;
  train_same(twins.one, twins.a, 1, 2);
  train_same(twins.other, twins.b, 1, 2);
  set_same_gradients(twins.a, 3);
  set_same_gradients(twins.b, 3);
  const Tensors before = to(twins.a, torch::kCPU);
  Hold::kernel();
  gpu_guard().synchronizeDevice(0);
  const c10::Stream side = side_stream();
  {
    const c10::StreamGuard use(side);
    Hold hold(side);
    twins.one.step();
    EXPECT_FALSE(side.query()) << "the step is not on the side stream";
    {
      const c10::StreamGuard elsewhere(gpu_guard().getDefaultStream(kGpu));
      expect_equal(to(twins.a, torch::kCPU), before);
    }
    EXPECT_TRUE(hold.release()) << "the host waited for the stream";
    side.synchronize();
  }
  twins.other.step();
  expect_same_bits(twins.a, to(twins.b, torch::kCPU));
}

TEST(CudaStreams, AStepOnASideStreamDoesNotWaitForOthers) {
  Twins twins;
  const c10::Stream side = side_stream(), busy = side_stream();
  const auto step = [&](int number) {
    const c10::StreamGuard use(side);
    set_same_gradients(twins.a, number);
    twins.one.step();
    side.synchronize();
  };
  step(1);
  step(2);
  Hold::kernel();
  gpu_guard().synchronizeDevice(0);
  Hold hold(busy);
  {
    const c10::StreamGuard use(side);
    twins.one.step();
    side.synchronize();
  }
  EXPECT_TRUE(hold.release());
  set_same_gradients(twins.b, 1);
  twins.other.step();
  set_same_gradients(twins.b, 2);
  twins.other.step();
  twins.other.step();
  expect_same_bits(twins.a, to(twins.b, torch::kCPU));
}

TEST(CudaStreams, AStepNeverWaitsForTheGpu) {
  // Enough tensors that their tables exceed what a driver copies through its staging buffer at once.
  const Tensors parameters =
      to(make_parameters(torch::kFloat32, std::vector<std::vector<std::int64_t>>(5000, {8})), kGpu);
  AdamW optimizer(parameters, AdamWOptions(0.01));
  train_same(optimizer, parameters, 1, 3);
  Tensors others;
  for (const auto& p : parameters) others.push_back(p.grad().clone());
  Hold::kernel();
  gpu_guard().synchronizeDevice(0);
  Hold hold(current_stream());
  optimizer.step();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = others[i];
  optimizer.step();  // other pointers, so the table is copied again
  EXPECT_FALSE(current_stream().query());
  EXPECT_TRUE(hold.release()) << "step() waited for the GPU";
}

TEST(CudaStreams, AScaledStepNeverWaitsForTheGpu) {
  const Tensors parameters = to(make_parameters(torch::kFloat32, {{5000}, {7}}), kGpu);
  Prodigy optimizer(parameters);  // has shared state
  GradScaler scaler;
  scaler.scale(torch::ones({}, kGpu));
  const auto scaled_step = [&](int step) {
    set_same_gradients(parameters, step);
    scaler.step(optimizer);
    scaler.update();
  };
  for (int step : {1, 2}) scaled_step(step);
  set_same_gradients(parameters, 3);
  Hold::kernel();
  gpu_guard().synchronizeDevice(0);
  Hold hold(current_stream());
  scaler.step(optimizer);
  scaler.update();
  EXPECT_FALSE(current_stream().query());
  EXPECT_TRUE(hold.release()) << "the host waited for the GPU";
  for (const auto& [key, state] : optimizer.state())
    EXPECT_EQ(static_cast<ParamState&>(*state).step(), 3);
}

TEST(CudaStreams, StepsMayAlternateBetweenStreams) {
  Twins twins;
  const c10::Stream streams[] = {side_stream(), side_stream()};
  for (int step = 1; step <= 6; ++step) {
    const c10::StreamGuard use(streams[step % 2]);
    train_same(twins.one, twins.a, step, step);
    current_stream().synchronize();
  }
  train_same(twins.other, twins.b, 1, 6);
  expect_same_bits(twins.a, to(twins.b, torch::kCPU));
}

TEST(CudaStreams, AThreadThatNeverUsedTheGpuMayStep) {
  Twins twins;
  train_same(twins.one, twins.a, 1, 1);
  train_same(twins.other, twins.b, 1, 1);
  set_same_gradients(twins.a, 2);
  std::string error;
  std::thread([&] {
    try {
      twins.one.step();
    } catch (const std::exception& e) {
      error = e.what();
    }
  }).join();
  EXPECT_EQ(error, "");
  train_same(twins.other, twins.b, 2, 2);
  expect_same_bits(twins.a, to(twins.b, torch::kCPU));
}

// Runs `action` while the current stream captures a graph, discards the graph, and returns the error message.
std::string error_in_capture(const std::function<void()>& action) {
  constexpr int kThreadLocal = 1;
  const auto begin = driver_function<int(void*, int)>("cuStreamBeginCapture_v2");
  const auto end = driver_function<int(void*, void**)>("cuStreamEndCapture");
  const auto destroy = driver_function<int(void*)>("cuGraphDestroy");
  void *stream = current_stream().native_handle(), *graph = nullptr;
  EXPECT_EQ(begin(stream, kThreadLocal), 0);
  std::string error;
  try {
    action();
  } catch (const std::exception& e) {
    error = e.what();
  }
  end(stream, &graph);
  if (graph != nullptr) destroy(graph);
  return error;
}

TEST(CudaCapture, ThrowsAndTheOptimizerContinues) {
  Twins twins;
  const c10::StreamGuard use(side_stream());
  train_same(twins.one, twins.a, 1, 2);
  train_same(twins.other, twins.b, 1, 2);
  set_same_gradients(twins.a, 3);
  EXPECT_HAS(error_in_capture([&] { twins.one.step(); }), "capture");
  twins.one.step();
  train_same(twins.other, twins.b, 3, 3);
  train_same(twins.one, twins.a, 4, 5);
  train_same(twins.other, twins.b, 4, 5);
  expect_same_bits(twins.a, to(twins.b, torch::kCPU));
}

TEST(CudaCapture, OfAFirstStepLeavesNoState) {
  Twins twins;
  const c10::StreamGuard use(side_stream());
  set_same_gradients(twins.a, 1);
  set_same_gradients(twins.b, 1);
  EXPECT_HAS(error_in_capture([&] { twins.one.step(); }), "capture");
  train_same(twins.one, twins.a, 1, 3);
  train_same(twins.other, twins.b, 1, 3);
  expect_same_bits(twins.a, to(twins.b, torch::kCPU));
}

std::int64_t peak_of(const std::function<void()>& action) {
  auto* allocator = c10::getDeviceAllocator(torch::kCUDA);
  constexpr auto kAggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  gpu_guard().synchronizeDevice(0);
  allocator->resetPeakStats(0);
  const auto before = allocator->getDeviceStats(0).allocated_bytes[kAggregate].current;
  action();
  return allocator->getDeviceStats(0).allocated_bytes[kAggregate].peak - before;
}

TEST(CudaMemory, AStepAllocatesNothingNearTheSizeOfAParameter) {
  constexpr std::int64_t kElements = 16 << 20;
  for (const char* rule : {"adamw", "lamb"}) {
    const Tensors parameters = {torch::randn({kElements}, kGpu).requires_grad_()};
    parameters[0].mutable_grad() = torch::randn({kElements}, kGpu);
    const auto optimizer = Optimizer::from_spec(
        parameters, std::string("{\"rule\": \"") + rule + "\", \"state\": \"int8\"}");
    // State of two bytes per element with its scales, tables and partial sums. That is less than a third.
    EXPECT_LT(peak_of([&] { optimizer->step(); }), 3 * kElements) << rule;
    EXPECT_EQ(peak_of([&] { optimizer->step(); }), 0) << rule << ", a later step";
  }
}

TEST(CudaMemory, OutOfMemoryIsAnErrorAndTheOptimizerContinues) {
  constexpr std::size_t kLeft = 64 << 20;
  constexpr std::int64_t kElements = 64 << 20;
  const Tensors a = {torch::zeros({kElements}, kGpu).requires_grad_()};
  const Tensors b = {torch::zeros({kElements}, kGpu).requires_grad_()};
  a[0].mutable_grad() = b[0].mutable_grad() = torch::randn({kElements}, kGpu);
  AdamW one(a, AdamWOptions(0.01)), other(b, AdamWOptions(0.01));
  c10::getDeviceAllocator(torch::kCUDA)->emptyCache();
  const auto info = driver_function<int(std::size_t*, std::size_t*)>("cuMemGetInfo_v2");
  const auto allocate = driver_function<int(unsigned long long*, std::size_t)>("cuMemAlloc_v2");
  const auto release = driver_function<int(unsigned long long)>("cuMemFree_v2");
  std::size_t left = 0, total = 0;
  unsigned long long filler = 0;
  ASSERT_EQ(info(&left, &total), 0);
  ASSERT_EQ(allocate(&filler, left - kLeft), 0);
  std::string error;
  try {
    one.step();
  } catch (const std::exception& e) {
    error = e.what();
  }
  EXPECT_EQ(release(filler), 0);
  EXPECT_HAS(error, "out of memory");
  for (int step = 0; step < 2; ++step) {
    one.step();
    other.step();
  }
  EXPECT_TRUE(torch::equal(a[0], b[0]));
}

TEST(CudaDevices, EachParameterIsSteppedOnItsDevice) {
  if (gpu_guard().deviceCount() < 2) GTEST_SKIP() << "only one GPU";
  const Tensors on_cpu = make_parameters(torch::kFloat32, {{70000}, {300, 7}, {5}, {4096}});
  Tensors spread;
  for (std::size_t i = 0; i < on_cpu.size(); ++i)
    spread.push_back(
        to({on_cpu[i]}, torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(i % 2)))[0]);
  AdamW cpu(on_cpu, AdamWOptions(0.01)), gpus(spread, AdamWOptions(0.01));
  train_same(cpu, on_cpu, 1, 3);
  train_same(gpus, spread, 1, 3);
  expect_same_bits(spread, on_cpu);
}

TEST(CudaDevices, StateMovesWithAModelToAnotherDevice) {
  for (const char* codec : {"fp32", "int8"}) {
    Tensors moved = make_parameters(torch::kFloat32, {{70000}, {300, 7}}), stays = clones(moved);
    const auto options = AdamWOptions(0.01).state(codec);
    AdamW one(moved, options), other(stays, options);
    train_same(other, stays, 1, 6);
    int done = 0;
    for (const torch::Device device :
         {torch::Device(torch::kCPU), kGpu, torch::Device(torch::kCPU)}) {
      for (auto& p : moved) {
        p.mutable_grad() = torch::Tensor();
        p.set_data(p.detach().to(device));
      }
      train_same(one, moved, done + 1, done + 2);
      done += 2;
    }
    expect_same_bits(moved, stays);
  }
}

TEST(CudaFork, AChildGetsAnErrorAndTheParentContinues) {
  Twins twins;
  train_same(twins.one, twins.a, 1, 1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    try {
      twins.one.step();
    } catch (const std::exception&) {
      _exit(7);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  train_same(twins.one, twins.a, 2, 3);
  train_same(twins.other, twins.b, 1, 3);
  expect_same_bits(twins.a, to(twins.b, torch::kCPU));
}

}  // namespace
}  // namespace jitstep::tests
