#include "training.h"

#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>

#include "progress.h"

namespace training {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

KernelCounts operator-(const KernelCounts& a, const KernelCounts& b) {
  return {a.compiled - b.compiled, a.from_disk - b.from_disk, a.from_memory - b.from_memory,
          a.compile_seconds - b.compile_seconds};
}

KernelCounts operator+(const KernelCounts& a, const KernelCounts& b) {
  return {a.compiled + b.compiled, a.from_disk + b.from_disk, a.from_memory + b.from_memory,
          a.compile_seconds + b.compile_seconds};
}

}  // namespace

torch::Device open_device(Flags& flags) {
  if (flags.threads > 0) torch::set_num_threads(flags.threads);
  flags.threads = torch::get_num_threads();
  if (flags.device == "cpu") return torch::kCPU;
  TORCH_CHECK(torch::cuda::is_available(), "--device cuda: this LibTorch (", TORCH_VERSION,
              ") finds no CUDA GPU. Use --device "
              "cpu, or a CUDA build of LibTorch on a machine with an NVIDIA GPU and its driver.");
  at::globalContext().setDeterministicCuDNN(true);  // so that runs differ only by their optimizers
  return torch::kCUDA;
}

torch::ScalarType parameter_dtype(const Flags& flags) {
  if (flags.dtype == "bfloat16") return torch::kBFloat16;
  return flags.dtype == "float16" ? torch::kFloat16 : torch::kFloat32;
}

Training::Training(const OptimizerChoice& choice, const Problem& problem)
    : steps_(problem.steps),
      before_(kernel_counts()),
      task_(problem.fresh_task()),
      parameters_(task_->network()->parameters()),
      built_optimizer_(build_optimizer(choice, parameters_)) {
  built_ = kernel_counts() - before_;
  run_.choice = choice;
  for (const torch::Tensor& parameter : parameters_) run_.parameters += parameter.numel();
}

Run Training::run() {
  before_ = kernel_counts();
  Progress progress(run_.choice.name, steps_);
  for (std::int64_t i = 0; i < steps_; ++i) {
    run_.losses.push_back(step(i));
    progress.update(i + 1, run_.losses.back());
  }
  const Score score = task_->test();
  run_.test_loss = score.loss;
  run_.test_accuracy = score.accuracy;
  progress.finish(score.accuracy);
  run_.seconds = progress.seconds();
  run_.state_bytes = built_optimizer_.state_bytes();
  run_.kernels = built_ + (kernel_counts() - before_);
  run_.first_step_ms = step_ms_.front();
  run_.step_ms = median({step_ms_.begin() + 1, step_ms_.end()});
  return run_;
}

double Training::step(std::int64_t number) {
  built_optimizer_.optimizer->zero_grad();
  const torch::Tensor loss = task_->loss(number);
  loss.backward();
  step_optimizer();
  return loss.item<double>();
}

// A GPU works asynchronously. Synchronize before and after the step, so that only the step is timed.
void Training::step_optimizer() {
  const bool on_gpu = parameters_.front().is_cuda();
  if (on_gpu) torch::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  built_optimizer_.optimizer->step();
  if (on_gpu) torch::cuda::synchronize();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  step_ms_.push_back(elapsed.count());
}

}  // namespace training
