// Cost models of configurations. They only determine the order of trials, so a rough estimate is sufficient.
#pragma once

#include <functional>
#include <vector>

#include "jit/tuning/hardware.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/kernel_config.h"

namespace jitstep::tuning {

/// The cost of a configuration, in any unit. Configurations of lower cost are tried first.
using Model = std::function<double(const jit::KernelConfig&)>;

/// The CPU model: rounds of items over the processors, times the elements and the overhead of an item.
Model cpu_model(const jit::Hardware& hardware, const jit::WorkSize& size);

/// The compiler's resource usage of a configuration's entry points. Needs no GPU.
using ResourcesOf = std::function<std::vector<jit::Resources>(const jit::KernelConfig&)>;

/// The GPU model: the bytes that must be in flight to saturate DRAM (Little's law), divided by the bytes that resident
/// threads request at once, at least 1. Latency and clocks are those of an H100, as tools/sass_report.py replays them
/// instruction by instruction. Spills double the cost. A configuration that cannot be resident has infinite cost.
/// `bytes`: read per element.
Model gpu_model(const ResourcesOf& resources, double bytes);

}  // namespace jitstep::tuning
