// The network that is trained, and its batches.
#pragma once

#include "../training/flags.h"
#include "../training/task.h"

namespace fashion_mnist {

struct Flags : training::Flags {
  int epochs = 1;
  std::int64_t limit = 0;  // training images used; 0: all
};

/// Reads the data and says what is to be trained: two convolutions of 5x5, two full layers, 431 080 parameters.
training::Problem make_problem(const Flags& flags, torch::Device device);

}  // namespace fashion_mnist
