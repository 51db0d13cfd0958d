// What a program trains: a network with its batches, the same for every optimizer.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace training {

/// What a network does with examples that it was not trained with.
struct Score {
  double loss = 0;      // mean
  double accuracy = 0;  // in [0, 1]
};

/// A fresh network. Every one of a program starts with the same weights and sees the same batches.
class Task {
 public:
  virtual ~Task() = default;
  virtual std::shared_ptr<torch::nn::Module> network() const = 0;

  /// The loss of a step's batch; steps are asked for in order, from 0.
  virtual torch::Tensor loss(std::int64_t step) = 0;
  virtual Score test() = 0;
};

/// What is the same for every optimizer of a program.
struct Problem {
  std::string program;              // its name, which its files have
  std::string description;          // a line for the reader: what is trained, on what
  nlohmann::ordered_json settings;  // that only this program has
  std::int64_t steps = 0;
  std::function<std::unique_ptr<Task>()> fresh_task;
};

/// A parameter in the arithmetic's own width, for layers that compute in float32 whatever their weights are kept in.
inline torch::Tensor widened(const torch::Tensor& parameter) {
  return parameter.to(torch::kFloat32);
}

}  // namespace training
