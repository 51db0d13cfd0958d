// The order of candidates for a GPU, by what its compiler says of them: needs no GPU.
#pragma once

#include "jitstep/jit/engine.h"
#include "tuning/clock.h"
#include "tuning/model.h"
#include "tuning/workload.h"

namespace jitstep::tuning {

/// gpu_model of the candidates. The first question compiles them, for so many seconds: those next to the default first,
/// as many at once as there are processors. What it does not come to, or what does not compile, costs infinitely much.
/// The engine must outlive it.
Model compiled_model(jit::Engine& engine, const Workload& workload, const jit::Hardware& gpu,
                     double seconds, const Clock& clock = steady_seconds);

}  // namespace jitstep::tuning
