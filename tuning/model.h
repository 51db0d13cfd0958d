// What a configuration may cost, before it has been run: the order in which a tuner tries them. It need not be right, only
// better than chance.
#pragma once

#include <functional>
#include <vector>

#include "jit/codegen/hardware.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::tuning {

/// The cost of a configuration, in any unit: smaller ones are tried first.
using Model = std::function<double(const jit::KernelConfig&)>;

/// Of the CPU: items that are started, and the share of the last one of each tensor and of each processor.
Model cpu_model(const jit::Hardware& hardware, const jit::WorkSize& size);

/// What a compiler says of a configuration's entries; needs no GPU.
using ResourcesOf = std::function<std::vector<jit::Resources>(const jit::KernelConfig&)>;

/// Of a GPU: how many times the bytes that its resident threads ask for at once are too few to keep memory busy, by
/// Little's law, with the latency and clocks of an H100 (which tools/sass_report.py replays instruction by
/// instruction). Spills cost as much as a kernel that is twice too slow; what cannot be resident is infinite.
/// `bytes`: of an element that are read.
Model gpu_model(const ResourcesOf& resources, double bytes);

}  // namespace jitstep::tuning
