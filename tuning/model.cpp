#include "tuning/model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace jitstep::tuning {
namespace {

// Limits of a multiprocessor of compute capability 8.0 to 10.0.
constexpr int kThreads = 2048, kBlocks = 32, kRegisters = 65536;
constexpr double kNeededBytes = 14.5 * 700;  // DRAM bytes per clock, times the clocks of a load

int resident_threads(const jit::KernelConfig& config, const jit::Resources& entry) {
  const int registers = std::max(1, (entry.registers + 7) / 8 * 8) * config.threads;
  const int blocks = std::min({kBlocks, kThreads / config.threads, kRegisters / registers});
  return blocks * config.threads;
}

}  // namespace

Model cpu_model(const jit::Hardware& hardware, const jit::WorkSize& size) {
  return [units = hardware.units, size](const jit::KernelConfig& config) {
    const double item = 256.0 * config.leaves_per_item;
    const double each = static_cast<double>(size.elements) / static_cast<double>(size.tensors);
    const double items = std::ceil(each / item) * static_cast<double>(size.tensors);
    const double workers = config.max_threads > 0 ? std::min(config.max_threads, units) : units;
    const double rounds = std::ceil(items / workers);
    constexpr double kItemOverhead = 100;  // starting an item takes as long as 100 elements
    return rounds * (std::min(each, item) + kItemOverhead);
  };
}

Model gpu_model(const ResourcesOf& resources, double bytes) {
  return [resources, bytes](const jit::KernelConfig& config) {
    double worst = 0;
    for (const jit::Resources& entry : resources(config)) {
      const int threads = resident_threads(config, entry);
      if (threads == 0) return std::numeric_limits<double>::infinity();
      const double requested = threads * config.vector_elems * bytes;
      const bool spills = entry.spill_store_bytes + entry.spill_load_bytes > 0;
      worst = std::max(worst, std::max(1.0, kNeededBytes / requested) * (spills ? 2 : 1));
    }
    return worst;
  };
}

}  // namespace jitstep::tuning
