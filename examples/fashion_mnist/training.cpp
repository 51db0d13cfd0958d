#include "training.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <sstream>

namespace fashion_mnist {
namespace {

// Of the 60000 training images, pixels in [0, 1].
constexpr double kPixelMean = 0.2860;
constexpr double kPixelDeviation = 0.3530;
constexpr std::int64_t kTestBatch = 500;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::int64_t steps_per_epoch(std::int64_t images, std::int64_t batch) {
  return (images + batch - 1) / batch;
}

KernelCounts operator-(const KernelCounts& a, const KernelCounts& b) {
  return {a.compiled - b.compiled, a.from_disk - b.from_disk, a.from_memory - b.from_memory,
          a.compile_seconds - b.compile_seconds};
}

KernelCounts operator+(const KernelCounts& a, const KernelCounts& b) {
  return {a.compiled + b.compiled, a.from_disk + b.from_disk, a.from_memory + b.from_memory,
          a.compile_seconds + b.compile_seconds};
}

// Depends on seed and epoch only, so that every optimizer sees the same batches.
torch::Tensor data_order(std::int64_t images, std::uint64_t seed, int epoch, torch::Device device) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(seed + static_cast<std::uint64_t>(epoch));
  return torch::randperm(images, generator, torch::kInt64).to(device);
}

std::shared_ptr<Network> make_network(std::uint64_t seed, torch::Device device) {
  torch::manual_seed(seed);
  auto network = std::make_shared<Network>();
  network->to(device);
  return network;
}

}  // namespace

torch::Device open_device(Flags& flags) {
  if (flags.threads > 0) torch::set_num_threads(flags.threads);
  flags.threads = torch::get_num_threads();
  if (flags.device == "cpu") return torch::kCPU;
  TORCH_CHECK(torch::cuda::is_available(), "--device cuda: this LibTorch (", TORCH_VERSION,
              ") finds no CUDA GPU; use --device "
              "cpu, or a CUDA build of LibTorch on a machine with an NVIDIA GPU and its driver.");
  at::globalContext().setDeterministicCuDNN(true);  // the comparison is of optimizers, not of runs
  return torch::kCUDA;
}

Examples to_examples(const LabelledImages& data, std::int64_t limit, torch::Device device) {
  const auto count = static_cast<std::int64_t>(data.labels.size());
  const auto used = limit > 0 ? std::min(limit, count) : count;
  // from_blob takes no const pointer; the tensors below are copies and the bytes stay as they are.
  auto* pixels = const_cast<std::uint8_t*>(data.pixels.data());
  auto* labels = const_cast<std::uint8_t*>(data.labels.data());
  const auto images = torch::from_blob(pixels, {used, 1, kSide, kSide}, torch::kUInt8);
  return {images.to(torch::kFloat32).div_(255).sub_(kPixelMean).div_(kPixelDeviation).to(device),
          torch::from_blob(labels, {used}, torch::kUInt8).to(torch::kInt64).to(device)};
}

std::string describe(const Examples& train, const Examples& test, const Flags& flags) {
  std::ostringstream out;
  out << "Fashion-MNIST: " << train.labels.numel() << " training images, " << test.labels.numel()
      << " test images; epochs: " << flags.epochs
      << ", steps in each: " << steps_per_epoch(train.labels.numel(), flags.batch)
      << "; device: " << flags.device << ", CPU threads: " << flags.threads;
  return out.str();
}

Network::Network()
    : conv1(register_module("conv1", torch::nn::Conv2d(1, 20, 5))),
      conv2(register_module("conv2", torch::nn::Conv2d(20, 50, 5))),
      full1(register_module("full1", torch::nn::Linear(50 * 4 * 4, 500))),
      full2(register_module("full2", torch::nn::Linear(500, kClasses))) {}

torch::Tensor Network::forward(torch::Tensor x) {
  x = torch::relu(torch::max_pool2d(conv1(x), 2));
  x = torch::relu(torch::max_pool2d(conv2(x), 2));
  x = torch::relu(full1(x.flatten(1)));
  return torch::log_softmax(full2(x), 1);
}

Training::Training(const OptimizerChoice& choice, const Flags& flags, torch::Device device)
    : flags_(flags),
      device_(device),
      before_(kernel_counts()),
      network_(make_network(flags.seed, device)),
      built_optimizer_(build_optimizer(choice, network_->parameters())) {
  built_ = kernel_counts() - before_;
  run_.choice = choice;
  for (const torch::Tensor& parameter : network_->parameters()) {
    run_.parameters += parameter.numel();
  }
}

Run Training::run(const Examples& train, const Examples& test) {
  before_ = kernel_counts();
  const std::int64_t images = train.labels.numel();
  Progress progress(run_.choice.name, flags_.epochs * steps_per_epoch(images, flags_.batch),
                    flags_.epochs * images);
  for (int epoch = 0; epoch < flags_.epochs; ++epoch) run_epoch(epoch, train, progress);
  run_.test_accuracy = accuracy(test);
  progress.finish(run_.test_accuracy);
  run_.seconds = progress.seconds();
  run_.state_bytes = built_optimizer_.state_bytes();
  run_.kernels = built_ + (kernel_counts() - before_);
  run_.first_step_ms = step_ms_.front();
  run_.step_ms = median({step_ms_.begin() + 1, step_ms_.end()});
  return run_;
}

void Training::run_epoch(int epoch, const Examples& train, Progress& progress) {
  const torch::Tensor order =
      data_order(train.labels.numel(), flags_.seed, epoch, train.labels.device());
  for (const torch::Tensor& batch : order.split(flags_.batch)) {
    run_.losses.push_back(
        step(train.images.index_select(0, batch), train.labels.index_select(0, batch)));
    images_seen_ += batch.numel();
    progress.update(static_cast<std::int64_t>(run_.losses.size()), images_seen_,
                    run_.losses.back());
  }
}

double Training::step(const torch::Tensor& images, const torch::Tensor& labels) {
  built_optimizer_.optimizer->zero_grad();
  const torch::Tensor loss = torch::nll_loss(network_->forward(images), labels);
  loss.backward();
  step_optimizer();
  return loss.item<double>();
}

// A GPU works behind the host's back: wait on both sides, so that only the step is timed.
void Training::step_optimizer() {
  if (device_.is_cuda()) torch::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  built_optimizer_.optimizer->step();
  if (device_.is_cuda()) torch::cuda::synchronize();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  step_ms_.push_back(elapsed.count());
}

double Training::accuracy(const Examples& test) {
  const torch::NoGradGuard no_grad;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < test.labels.numel(); i += kTestBatch) {
    const auto labels = test.labels.narrow(0, i, std::min(kTestBatch, test.labels.numel() - i));
    const auto images = test.images.narrow(0, i, labels.numel());
    right += network_->forward(images).argmax(1).eq(labels).sum().item<std::int64_t>();
  }
  return static_cast<double>(right) / static_cast<double>(test.labels.numel());
}

}  // namespace fashion_mnist
