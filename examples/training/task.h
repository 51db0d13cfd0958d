// The problem of a training program: a network with its batches, the same for every optimizer.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace training {

/// The results of a network on test examples.
struct Score {
  double loss = 0;      // mean
  double accuracy = 0;  // in [0, 1]
};

/// A new network. All networks of a program start with the same weights and get the same batches.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::shared_ptr<torch::nn::Module> network() const = 0;

  /// The loss of a step's batch. Call it for all steps in order, from 0.
  virtual torch::Tensor loss(std::int64_t step) = 0;
  virtual Score test() = 0;
};

/// The problem that all optimizers of a program train.
struct Problem {
  std::string program;              // name of the program and of its files
  std::string description;          // one line about network and data
  nlohmann::ordered_json settings;  // settings that only this program has
  std::int64_t steps = 0;
  std::function<std::unique_ptr<Task>()> fresh_task;
};

/// A parameter in float32, for layers that compute in float32 with any dtype of their weights.
inline torch::Tensor widened(const torch::Tensor& parameter) {
  return parameter.to(torch::kFloat32);
}

}  // namespace training
