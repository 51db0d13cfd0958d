// The network to train, and its batches.
#pragma once

#include "../training/flags.h"
#include "../training/task.h"

namespace fashion_mnist {

struct Flags : training::Flags {
  int epochs = 1;
  std::int64_t limit = 0;  // number of training images; 0: all
};

/// Reads the data and returns the problem: a network with two 5 x 5 convolutions and two fully connected layers,
/// 431,080 parameters.
training::Problem make_problem(const Flags& flags, torch::Device device);

}  // namespace fashion_mnist
