#include "jit/step/cuda_backend.h"

#include <algorithm>

#include "jit/base/args.h"
#include "jit/engine/cuda_driver.h"
#include "jit/engine/engine_parts.h"
#include "jit/tuning/config_chooser.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Enough blocks to fill the GPU several times over. Each block processes a part of the items.
constexpr int kBlocksPerMultiprocessor = 32;

// Data that all launches of one back end share.
struct LaunchContext {
  const CudaDriver& driver;
  void* context;
  CudaHost& host;
  std::int64_t blocks;
};

class CudaLaunches : public Launches {
 public:
  CudaLaunches(const LaunchContext& launch_context, std::shared_ptr<const Kernel> kernel,
               const std::vector<std::string>& entries, int threads)
      : launch_context_(launch_context),
        kernel_(std::move(kernel)),
        threads_(static_cast<unsigned>(threads)),
        stream_(launch_context.host.stream()) {
    for (const auto& entry : entries) entries_.push_back(kernel_->cuda(entry));
  }
  ~CudaLaunches() override {
    if (event_) launch_context_.driver.destroy_event(launch_context_.context, event_);
  }
  CudaLaunches(const CudaLaunches&) = delete;
  CudaLaunches& operator=(const CudaLaunches&) = delete;

  void launch(int entry, const Args& args) override {
    if (args.item_count == 0) return;
    const auto grid =
        static_cast<unsigned>(std::min<std::int64_t>(args.item_count, launch_context_.blocks));
    entries_[entry].launch(stream_, grid, threads_, &args);
  }

  bool wait_for_last_step() override {
    if (!event_) event_ = launch_context_.driver.create_event(launch_context_.context);
    void* const now = launch_context_.host.stream();
    const bool changed = now != stream_;
    if (changed) {
      // The last step failed before its event was recorded.
      if (!recorded_) launch_context_.driver.record_event(launch_context_.context, event_, stream_);
      launch_context_.driver.wait_event(launch_context_.context, now, event_);
      stream_ = now;
    }
    recorded_ = false;
    return changed;
  }

  // Records the event now and not when another stream waits, because the program may have destroyed this stream by
  // then. Errors are ignored: the kernels are launched, so that an exception would wrongly report a failed step.
  void record_step() override {
    try {
      launch_context_.driver.record_event(launch_context_.context, event_, stream_);
      recorded_ = true;
    } catch (const CudaError&) {
      recorded_ = false;
    }
  }

  // A capture must not wait for an event of work outside it, and other work must not wait for an event of the capture.
  void follow_capture() override { stream_ = launch_context_.host.stream(); }

 private:
  LaunchContext launch_context_;
  std::shared_ptr<const Kernel> kernel_;
  std::vector<CudaEntry> entries_;
  unsigned threads_;
  void* stream_;
  void* event_ = nullptr;
  bool recorded_ = false;  // whether event_ covers all work so far
};

}  // namespace

CudaBackend::CudaBackend(Engine& engine, int device, std::unique_ptr<CudaHost> host,
                         ConfigProvider configs)
    : Backend(configs ? std::move(configs)
                      : recorded_configs(engine, gpu_hardware(engine, device))),
      engine_(engine),
      driver_(driver_of(engine)),
      device_(device),
      target_(engine.cuda_target(device)),
      gpu_(driver_.device(device)),
      blocks_(gpu_.multiprocessors * kBlocksPerMultiprocessor),
      context_(driver_of(engine).primary_context(device)),
      host_(std::move(host)) {}

std::shared_ptr<const Kernel> CudaBackend::load(const std::string& translation_unit,
                                                const std::string& name) {
  check_not_capturing();
  return engine_.kernel(translation_unit, name, target_, device_);
}

void CudaBackend::build_all(const std::vector<NamedText>& units) {
  check_not_capturing();
  engine_.build_all(units, target_);
}

std::unique_ptr<Launches> CudaBackend::launches(std::shared_ptr<const Kernel> kernel,
                                                const std::vector<std::string>& entries,
                                                const KernelConfig& config) {
  return std::make_unique<CudaLaunches>(LaunchContext{driver_, context_, *host_, blocks_},
                                        std::move(kernel), entries, config.threads);
}

void CudaBackend::upload(void* to, const void* from, std::size_t bytes) {
  driver_.upload(context_, host_->stream(), to, from, bytes);
}

bool CudaBackend::is_capturing() { return driver_.is_capturing(context_, host_->stream()); }

}  // namespace jitstep::jit
