#include "network.h"

#include <torch/torch.h>

#include <algorithm>
#include <sstream>

#include "../training/training.h"
#include "data_set.h"

namespace fashion_mnist {
namespace {

using training::widened;

// Mean and standard deviation of the pixels of all 60000 training images, in [0, 1].
constexpr double kPixelMean = 0.2860;
constexpr double kPixelDeviation = 0.3530;
constexpr std::int64_t kTestBatch = 500;

// Normalized images and their labels, on the device.
struct Examples {
  torch::Tensor images;
  torch::Tensor labels;
};

// The first `limit` examples; 0: all.
Examples to_examples(const LabeledImages& data, std::int64_t limit, torch::Device device) {
  const auto count = static_cast<std::int64_t>(data.labels.size());
  const auto used = limit > 0 ? std::min(limit, count) : count;
  // from_blob needs a pointer to non-const. The tensors below are copies, so the data does not change.
  auto* pixels = const_cast<std::uint8_t*>(data.pixels.data());
  auto* labels = const_cast<std::uint8_t*>(data.labels.data());
  const auto images = torch::from_blob(pixels, {used, 1, kSide, kSide}, torch::kUInt8);
  return {images.to(torch::kFloat32).div_(255).sub_(kPixelMean).div_(kPixelDeviation).to(device),
          torch::from_blob(labels, {used}, torch::kUInt8).to(torch::kInt64).to(device)};
}

struct Network : torch::nn::Module {
  Network()
      : conv1(register_module("conv1", torch::nn::Conv2d(1, 20, 5))),
        conv2(register_module("conv2", torch::nn::Conv2d(20, 50, 5))),
        full1(register_module("full1", torch::nn::Linear(50 * 4 * 4, 500))),
        full2(register_module("full2", torch::nn::Linear(500, kClasses))) {}

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(convolved(x, *conv1), 2));
    x = torch::relu(torch::max_pool2d(convolved(x, *conv2), 2));
    x = torch::relu(transformed(x.flatten(1), *full1));
    return torch::log_softmax(transformed(x, *full2), 1);
  }

  static torch::Tensor convolved(const torch::Tensor& x, const torch::nn::Conv2dImpl& layer) {
    return torch::conv2d(x, widened(layer.weight), widened(layer.bias));
  }
  static torch::Tensor transformed(const torch::Tensor& x, const torch::nn::LinearImpl& layer) {
    return torch::linear(x, widened(layer.weight), widened(layer.bias));
  }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear full1, full2;
};

std::shared_ptr<Network> make_network(const Flags& flags, torch::Device device) {
  torch::manual_seed(flags.seed);
  auto network = std::make_shared<Network>();
  network->to(device, training::parameter_dtype(flags));
  return network;
}

// Depends only on seed and epoch, so that every optimizer gets the same batches.
torch::Tensor data_order(std::int64_t images, std::uint64_t seed, std::int64_t epoch,
                         torch::Device device) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(seed + static_cast<std::uint64_t>(epoch));
  return torch::randperm(images, generator, torch::kInt64).to(device);
}

class FashionMnist : public training::Task {
 public:
  FashionMnist(const Flags& flags, const Examples& train, const Examples& test)
      : flags_(flags),
        train_(train),
        test_(test),
        network_(make_network(flags, train.images.device())) {}

  std::shared_ptr<torch::nn::Module> network() const override { return network_; }

  torch::Tensor loss(std::int64_t step) override {
    const auto steps = steps_per_epoch(train_.labels.numel(), flags_.batch);
    if (step % steps == 0) {
      const auto images = train_.labels.numel();
      batches_ =
          data_order(images, flags_.seed, step / steps, train_.labels.device()).split(flags_.batch);
    }
    const torch::Tensor& batch = batches_[static_cast<std::size_t>(step % steps)];
    return torch::nll_loss(network_->forward(train_.images.index_select(0, batch)),
                           train_.labels.index_select(0, batch));
  }

  training::Score test() override {
    const torch::NoGradGuard no_grad;
    const std::int64_t count = test_.labels.numel();
    double loss = 0;
    std::int64_t right = 0;
    for (std::int64_t i = 0; i < count; i += kTestBatch) {
      const auto labels = test_.labels.narrow(0, i, std::min(kTestBatch, count - i));
      const auto scores = network_->forward(test_.images.narrow(0, i, labels.numel()));
      loss += torch::nll_loss(scores, labels, {}, at::Reduction::Sum).item<double>();
      right += scores.argmax(1).eq(labels).sum().item<std::int64_t>();
    }
    return {loss / static_cast<double>(count),
            static_cast<double>(right) / static_cast<double>(count)};
  }

  static std::int64_t steps_per_epoch(std::int64_t images, std::int64_t batch) {
    return (images + batch - 1) / batch;
  }

 private:
  Flags flags_;
  Examples train_, test_;
  std::shared_ptr<Network> network_;
  std::vector<torch::Tensor> batches_;  // of the current epoch
};

std::string describe(const Examples& train, const Examples& test, const Flags& flags,
                     std::int64_t steps) {
  std::ostringstream out;
  out << "Fashion-MNIST: " << train.labels.numel() << " training images, " << test.labels.numel()
      << " test images; epochs: " << flags.epochs << ", steps per epoch: " << steps;
  return out.str();
}

}  // namespace

training::Problem make_problem(const Flags& flags, torch::Device device) {
  const DataSet data = load_data_set(flags.data);
  const Examples train = to_examples(data.train, flags.limit, device);
  const Examples test = to_examples(data.test, 0, device);
  const auto steps = FashionMnist::steps_per_epoch(train.labels.numel(), flags.batch);
  return {.program = "fashion_mnist",
          .description = describe(train, test, flags, steps),
          .settings = {{"epochs", flags.epochs}, {"limit", flags.limit}},
          .steps = flags.epochs * steps,
          .fresh_task = [=] { return std::make_unique<FashionMnist>(flags, train, test); }};
}

}  // namespace fashion_mnist
