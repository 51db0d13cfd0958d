// Include this header to use jitstep: optimizers with torch's interface and generated kernels.
#pragma once

#include <torch/optim.h>

#include "jitstep/grad_accumulator.h"
#include "jitstep/grad_scaler.h"
#include "jitstep/jit/error.h"
#include "jitstep/library.h"
#include "jitstep/optimizer.h"
#include "jitstep/options.h"
#include "jitstep/param_state.h"
#include "jitstep/parameter_groups.h"
#include "jitstep/reports.h"
#include "jitstep/rules.h"
#include "jitstep/schedulers.h"
#include "jitstep/version.h"

namespace jitstep {

// torch's own names that belong to optimizers, so that a program only has to change the namespace.
using torch::optim::LRScheduler;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::OptimizerParamState;
using torch::optim::ReduceLROnPlateauScheduler;
using torch::optim::StepLR;

}  // namespace jitstep
