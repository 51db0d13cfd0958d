// The network and its training, the same for every optimizer.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <vector>

#include "data_set.h"
#include "flags.h"
#include "optimizers.h"
#include "progress.h"
#include "run.h"

namespace fashion_mnist {

/// Images and labels as tensors on the device, the images normalised.
struct Examples {
  torch::Tensor images;
  torch::Tensor labels;
};

/// The device that --device names; throws when there is none. Obeys --threads, and writes the
/// number of threads in use into the flags.
torch::Device open_device(Flags& flags);

/// The first `limit` examples; 0: all.
Examples to_examples(const LabelledImages& data, std::int64_t limit, torch::Device device);

/// One line for the reader: what is trained, on what.
std::string describe(const Examples& train, const Examples& test, const Flags& flags);

/// Two convolutions of 5x5, two full layers: 431 080 parameters.
struct Network : torch::nn::Module {
  Network();
  torch::Tensor forward(torch::Tensor x);

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear full1{nullptr}, full2{nullptr};
};

/// A fresh network with its optimizer; construction reports a wrong choice, run() trains.
class Training {
 public:
  Training(const OptimizerChoice& choice, const Flags& flags, torch::Device device);

  /// Trains for all epochs, tests, and returns what came of it. To be called once.
  Run run(const Examples& train, const Examples& test);

 private:
  void run_epoch(int epoch, const Examples& train, Progress& progress);
  double step(const torch::Tensor& images, const torch::Tensor& labels);
  void step_optimizer();
  double accuracy(const Examples& test);

  Flags flags_;
  torch::Device device_;
  KernelCounts before_;  // this process's kernels when the optimizer was not yet built
  KernelCounts built_;   // those that building it took
  std::shared_ptr<Network> network_;
  BuiltOptimizer built_optimizer_;
  std::vector<double> step_ms_;
  std::int64_t images_seen_ = 0;
  Run run_;
};

}  // namespace fashion_mnist
