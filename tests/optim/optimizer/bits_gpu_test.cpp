// Whole optimizers give bit-identical results on a GPU and on the CPU.
#include "optim/optimizer/cuda.h"

namespace jitstep::tests {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes = {
    {5, 3}, {3}, {}, {70000}, {300, 401}, {1}, {0, 4}, {257, 33}, {4096}, {17}, {2, 3, 5}};

Tensors shaped(torch::Dtype dtype) {
  torch::manual_seed(7);
  Tensors parameters;
  for (const auto& shape : kShapes)
    parameters.push_back(torch::randn(shape).to(dtype).set_requires_grad(true));
  return parameters;
}

void expect_gpu_follows_cpu(const std::string& spec, torch::Dtype dtype = torch::kFloat32) {
  SCOPED_TRACE(spec);
  const Tensors on_cpu = shaped(dtype), on_gpu = to(on_cpu, kGpu);
  auto cpu = Optimizer::from_spec(on_cpu, spec), gpu = Optimizer::from_spec(on_gpu, spec);
  for (int step = 1; step <= 5; ++step) {
    train_same(*cpu, on_cpu, step, step);
    train_same(*gpu, on_gpu, step, step);
    expect_same_bits(on_gpu, on_cpu);
  }
}

TEST(OptimizerBits, OfEveryRuleAndCodec) {
  for (const char* codec : {"fp32", "bf16", "int8", "int4"})
    for (const char* rule : {"adam", "adamw", "lamb", "sgd"})
      expect_gpu_follows_cpu(std::string("{\"rule\": \"") + rule +
                             "\", \"options\": {\"lr\": 0.01" +
                             (std::string(rule) == "sgd" ? ", \"momentum\": 0.9" : "") +
                             "}, \"state\": \"" + codec + "\"}");
}

TEST(OptimizerBits, OfClippingAndCentralization) {
  expect_gpu_follows_cpu(R"({"rule": "adamw", "options": {"lr": 0.01, "max_grad_norm": 0.5,
                             "centralization": 1.0}, "state": "int8"})");
}

TEST(OptimizerBits, OfEveryDtype) {
  for (torch::Dtype dtype : {torch::kFloat64, torch::kBFloat16, torch::kFloat16})
    expect_gpu_follows_cpu(R"({"rule": "lamb", "options": {"lr": 0.01}})", dtype);
  expect_gpu_follows_cpu(R"({"rule": "adamw", "weights": "stochastic", "state": "int8"})",
                         torch::kBFloat16);
}

TEST(OptimizerBits, OfLossScaling) {
  for (const char* rule : {"adamw", "prodigy", "schedulefree_adamw"}) {
    const Tensors on_cpu = shaped(torch::kFloat32), on_gpu = to(on_cpu, kGpu);
    Optimizer cpu(rule, on_cpu), gpu(rule, on_gpu);
    for (const auto& [optimizer, parameters] : {std::pair{&cpu, on_cpu}, {&gpu, on_gpu}}) {
      GradScaler scaler(GradScalerOptions().init_scale(48));
      scaler.scale(torch::ones({}, parameters[0].device()));
      optimizer->zero_grad_in_step();
      for (int step = 1; step <= 5; ++step) {
        set_same_gradients(parameters, step);
        if (step % 2 == 1) parameters[3].mutable_grad()[0] = NAN;
        scaler.step(*optimizer);
        scaler.update();
        for (const auto& p : parameters) EXPECT_FALSE(p.grad().any().item<bool>());
      }
      EXPECT_EQ(scaler.get_scale(), 6);
      optimizer->eval();
    }
    expect_same_bits(on_gpu, on_cpu);
    EXPECT_EQ(static_cast<ParamState&>(*gpu.state().at(on_gpu[0].unsafeGetTensorImpl())).step(), 2);
  }
}

TEST(OptimizerBits, OfLayouts) {
  torch::manual_seed(3);
  const Tensors whole = {torch::randn({40, 30}), torch::randn({4, 6, 9, 8}), torch::randn({1001})};
  const auto views = [](const Tensors& t) {
    return Tensors{t[0].t().detach().requires_grad_(),
                   t[1].contiguous(torch::MemoryFormat::ChannelsLast).detach().requires_grad_(),
                   t[2].slice(0, 1).detach().requires_grad_()};
  };
  const Tensors on_cpu = views(clones(whole)), on_gpu = views(to(whole, kGpu));
  AdamW cpu(on_cpu, AdamWOptions(0.01)), gpu(on_gpu, AdamWOptions(0.01));
  for (int step = 1; step <= 3; ++step) {
    train_same(cpu, on_cpu, step, step);
    train_same(gpu, on_gpu, step, step);
  }
  expect_same_bits(on_gpu, on_cpu);
}

TEST(OptimizerBits, OfParametersOnBothDevices) {
  const Tensors on_cpu = shaped(torch::kFloat32);
  Tensors mixed;
  for (std::size_t i = 0; i < on_cpu.size(); ++i)
    mixed.push_back(to({on_cpu[i]}, i % 2 ? kGpu : torch::Device(torch::kCPU))[0]
                        .clone()
                        .detach()
                        .requires_grad_());
  AdamW one(on_cpu, AdamWOptions(0.01).state("int8")), two(mixed, AdamWOptions(0.01).state("int8"));
  train_same(one, on_cpu, 1, 3);
  train_same(two, mixed, 1, 3);
  expect_same_bits(mixed, on_cpu);
}

TEST(OptimizerBits, OfAStateThatIsSavedOnAGpuAndLoadedOnTheCpu) {
  const Tensors start = shaped(torch::kFloat32), on_gpu = to(start, kGpu);
  const Tensors whole = clones(start);
  const auto options = AdamWOptions(0.01).state("int4");
  AdamW gpu(on_gpu, options), cpu(whole, options);
  train_same(gpu, on_gpu, 1, 3);
  const Tensors resumed = clones(to(on_gpu, torch::kCPU));
  AdamW after(resumed, options);
  copy_through_archive(gpu, after);
  train_same(after, resumed, 4, 6);
  train_same(cpu, whole, 1, 6);
  expect_equal(resumed, whole);
}

// Sets gradients by backward(), which runs in a separate thread for a GPU.
void backward_same(const Tensors& parameters, int step) {
  torch::manual_seed(1000 + step);
  torch::Tensor loss = torch::zeros({}, parameters[0].options());
  for (const auto& p : parameters)
    loss = loss + (p * torch::randn(p.sizes(), p.scalar_type()).to(p.device())).sum();
  loss.backward();
}

TEST(OptimizerBits, OfStepsInBackward) {
  const Tensors on_cpu = shaped(torch::kFloat32), on_gpu = to(on_cpu, kGpu);
  for (const Tensors& parameters : {on_cpu, on_gpu}) {
    AdamW opt(parameters, AdamWOptions(0.01).state("int8"));
    opt.step_in_backward();
    for (int step = 1; step <= 3; ++step) backward_same(parameters, step);
  }
  expect_same_bits(on_gpu, on_cpu);
}

TEST(OptimizerBits, OfSumsOfMicroBatches) {
  const Tensors on_cpu = shaped(torch::kFloat32), on_gpu = to(on_cpu, kGpu);
  for (const std::int64_t bytes : {0, 1 << 28})
    for (const Tensors& parameters : {on_cpu, on_gpu}) {
      AdamW opt(parameters, AdamWOptions(0.01));
      GradAccumulator sums(parameters, GradAccumulatorOptions().max_waiting_bytes(bytes));
      for (int step = 1; step <= 6; ++step) {
        backward_same(parameters, step);
        if (step % 3 != 0) continue;
        sums.assign_gradients();
        opt.step();
        opt.zero_grad();
      }
    }
  expect_same_bits(on_gpu, on_cpu);
}

}  // namespace
}  // namespace jitstep::tests
