// A cost model for a GPU from the compiler's resource usage. Needs no GPU.
#pragma once

#include "jitstep/jit/engine.h"
#include "tuning/clock.h"
#include "tuning/model.h"
#include "tuning/workload.h"

namespace jitstep::tuning {

/// gpu_model of the candidates. The first call compiles them for at most `seconds`, in parallel on all processors,
/// those nearest to the default first. A candidate that was not compiled in time, or does not compile, has infinite
/// cost. The engine must outlive the model.
Model compiled_model(jit::Engine& engine, const Workload& workload, const jit::Hardware& gpu,
                     double seconds, const Clock& clock = steady_seconds);

}  // namespace jitstep::tuning
