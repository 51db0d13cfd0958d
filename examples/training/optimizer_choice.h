// Which optimizers to train: names and JSON specs become choices. Knows neither torch nor jitstep.
#pragma once

#include <string>
#include <vector>

#include "flags.h"

namespace training {

enum class OptimizerKind { kTorchAdamW, kAdamW, kLamb, kSpec };

constexpr double kWeightDecay = 1e-2;  // of all named optimizers

// One epoch, batch 128, seed 1: AdamW 87.0 % test accuracy with fp32 and int8 state, 86.7 % with
// int4; LAMB 87.7 % (86.6 % at 5e-3, 83.7 % at 2e-2).
constexpr double kAdamWLr = 1e-3;
constexpr double kLambLr = 1e-2;

struct OptimizerChoice {
  std::string name;  // unique in a program run; the table's first column
  OptimizerKind kind = OptimizerKind::kTorchAdamW;
  std::string state;  // codec; of kAdamW and kLamb
  double lr = 0;      // of a spec without one: NaN
  std::string spec;   // of kSpec
};

/// The optimizers to train, in order, each once. Throws std::invalid_argument for an unknown name
/// or a spec that is no JSON object with a rule.
std::vector<OptimizerChoice> choose_optimizers(const Flags& flags);

}  // namespace training
