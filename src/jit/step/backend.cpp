#include "jitstep/jit/backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "jit/base/args.h"
#include "jit/base/fork_guard.h"
#include "jit/base/integers.h"
#include "jit/tuning/config_chooser.h"
#include "jit/tuning/hardware.h"
#include "jitstep/jit/engine.h"

namespace jitstep::jit {

void Backend::check_not_capturing() {
  if (!is_capturing()) return;
  throw Error(
      "a CUDA graph capture cannot contain this call, because a graph cannot repeat compilation, "
      "new state, step counts on the CPU, or a switch of the mode. Make the call before the "
      "capture. To capture step(), call capturable() of the optimizer, and step() once with the "
      "same parameters before the capture.");
}
namespace {

// Items of at least 32768 elements: torch's own grain size for a thread (at::internal::GRAIN_SIZE).
std::int64_t default_grain(const KernelConfig& config) {
  return std::max<std::int64_t>(1, 32768 / kLeaf / config.leaves_per_item);
}

class CpuLaunches : public Launches {
 public:
  CpuLaunches(std::shared_ptr<const Kernel> kernel, const std::vector<std::string>& entries,
              const KernelConfig& config, const ParallelFor& parallel_for)
      : kernel_(std::move(kernel)),
        parallel_for_(parallel_for),
        grain_(config.min_items > 0 ? config.min_items : default_grain(config)),
        workers_(config.max_threads) {
    for (const auto& entry : entries) entries_.push_back(kernel_->cpu(entry));
  }

  void launch(int entry, const Args& args) override {
    for_threads(args.item_count,
                [run = entries_[entry], &args](auto begin, auto end) { run(&args, begin, end); });
  }

  void launch_backwards(int entry, const Args& args) override {
    for_threads(args.item_count, [this, run = entries_[entry], &args](auto begin, auto end) {
      for (auto last = end; last > begin; last -= grain_)
        run(&args, std::max(begin, last - grain_), last);
    });
  }

 private:
  template <class Body>
  void for_threads(std::int64_t count, const Body& body) {
    if (count == 1 || workers_ == 1 || !parallel_for_ || forked_from_threads())
      return body(std::int64_t{0}, count);
    const std::int64_t share = workers_ > 0 ? ceil_div(count, workers_) : 1;
    parallel_for_(count, std::max(grain_, share), body);
  }

  std::shared_ptr<const Kernel> kernel_;
  const ParallelFor& parallel_for_;
  std::int64_t grain_, workers_;  // 0 workers: no limit
  std::vector<CpuEntry> entries_;
};

}  // namespace

ConfigChoice Backend::choose_config(const Plan& plan, const WorkSize& size) const {
  if (configs_) return configs_(plan, size);
  return {.config = default_kernel_config(plan, target())};
}

CpuBackend::CpuBackend(Engine& engine, ParallelFor parallel_for, ConfigProvider configs)
    : Backend(configs ? std::move(configs) : recorded_configs(engine, host_hardware())),
      engine_(engine),
      parallel_for_(std::move(parallel_for)) {}

std::shared_ptr<const Kernel> CpuBackend::load(const std::string& translation_unit,
                                               const std::string& name) {
  return engine_.kernel(translation_unit, name, target());
}

void CpuBackend::build_all(const std::vector<NamedText>& units) {
  engine_.build_all(units, target());
}

std::unique_ptr<Launches> CpuBackend::launches(std::shared_ptr<const Kernel> kernel,
                                               const std::vector<std::string>& entries,
                                               const KernelConfig& config) {
  return std::make_unique<CpuLaunches>(std::move(kernel), entries, config, parallel_for_);
}

std::shared_ptr<void> CpuBackend::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* p = std::aligned_alloc(kAlignment, std::max(size, kAlignment));
  if (p == nullptr) throw std::bad_alloc();
  return {p, &std::free};
}

// 2 MiB of float32 parameters, gradients and two slots per processor. Cores of servers have 2 to 5 MiB of level-2 and
// level-3 cache each, and often two processors.
std::int64_t CpuBackend::cached_elements() const {
  return std::int64_t{1 << 17} * host_hardware().units;
}

Engine* CpuBackend::contract_checker() const {
  return engine_.settings().check ? &engine_ : nullptr;
}

void CpuBackend::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);  // an empty vector may have no address
}

}  // namespace jitstep::jit
