// The network to train, and its batches.
#pragma once

#include "../training/flags.h"
#include "../training/task.h"

namespace char_transformer {

struct Flags : training::Flags {
  int steps = 400;
};

/// Reads the text and returns the problem: a transformer with two layers of width 128, which predicts the next
/// character from up to 64 characters before it.
training::Problem make_problem(const Flags& flags, torch::Device device);

}  // namespace char_transformer
