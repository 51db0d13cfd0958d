// The network that is trained, and its batches.
#pragma once

#include "../training/flags.h"
#include "../training/task.h"

namespace char_transformer {

struct Flags : training::Flags {
  int steps = 400;
};

/// Reads the text and says what is to be trained: a transformer of two layers, 128 wide, that predicts the next of 65
/// characters from those before it.
training::Problem make_problem(const Flags& flags, torch::Device device);

}  // namespace char_transformer
