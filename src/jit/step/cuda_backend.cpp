#include "jit/step/cuda_backend.h"

#include <algorithm>

#include "jit/step/config_chooser.h"
#include "jitstep/jit/error.h"

namespace jitstep::jit {
namespace {

// Enough blocks to fill the GPU several times over; each takes its share of the items.
constexpr int kBlocksPerMultiprocessor = 32;

// What the launches of one machine have in common.
struct Place {
  const CudaDriver& driver;
  void* context;
  CudaHost& host;
  std::int64_t blocks;
};

class CudaLaunches : public Launches {
 public:
  CudaLaunches(const Place& location, std::shared_ptr<const Kernel> kernel,
               const std::vector<std::string>& entries, int threads)
      : location_(location),
        kernel_(std::move(kernel)),
        threads_(static_cast<unsigned>(threads)),
        stream_(location.host.stream()) {
    for (const auto& entry : entries) entries_.push_back(kernel_->cuda(entry));
  }
  ~CudaLaunches() override {
    if (event_) location_.driver.destroy_event(location_.context, event_);
  }
  CudaLaunches(const CudaLaunches&) = delete;
  CudaLaunches& operator=(const CudaLaunches&) = delete;

  void launch(int entry, const Args& args) override {
    if (args.item_count == 0) return;
    const auto grid =
        static_cast<unsigned>(std::min<std::int64_t>(args.item_count, location_.blocks));
    entries_[entry].launch(stream_, grid, threads_, &args);
  }

  bool wait_for_last_step() override {
    if (!event_) event_ = location_.driver.create_event(location_.context);
    void* const now = location_.host.stream();
    const bool changed = now != stream_;
    if (changed) {
      // The step before, or its record, has failed half way.
      if (!recorded_) location_.driver.record_event(location_.context, event_, stream_);
      location_.driver.wait_event(location_.context, now, event_);
      stream_ = now;
    }
    recorded_ = false;
    return changed;
  }

  // Note: recorded at once rather than when another stream wants to wait, as the program may have
  // destroyed this one by then.
  // The kernels are launched: that this fails must not look as if the step had.
  void record_step() override {
    try {
      location_.driver.record_event(location_.context, event_, stream_);
      recorded_ = true;
    } catch (const CudaError&) {
      recorded_ = false;
    }
  }

  // An event of work outside must not be waited for in a capture, nor one of the capture outside.
  void follow_capture() override { stream_ = location_.host.stream(); }

 private:
  Place location_;
  std::shared_ptr<const Kernel> kernel_;
  std::vector<CudaEntry> entries_;
  unsigned threads_;
  void* stream_;
  void* event_ = nullptr;
  bool recorded_ = false;  // nothing has been done since
};

}  // namespace

CudaBackend::CudaBackend(Engine& engine, int device, std::unique_ptr<CudaHost> host)
    : engine_(engine),
      driver_(engine.driver()),
      device_(device),
      target_(engine.cuda_target(device)),
      gpu_(driver_.device(device)),
      blocks_(gpu_.multiprocessors * kBlocksPerMultiprocessor),
      context_(engine.driver().primary_context(device)),
      host_(std::move(host)),
      chooser_(std::make_shared<ConfigChooser>(
          engine, gpu_hardware(target_, gpu_.multiprocessors, gpu_.l2_bytes))) {}

ConfigChoice CudaBackend::choose_config(const Plan& plan, const WorkSize& size) {
  return chooser_->choose(plan, size);
}

std::shared_ptr<const Kernel> CudaBackend::load(const std::string& translation_unit,
                                                const std::string& name) {
  refuse_capture();
  return engine_.kernel(translation_unit, name, target_, device_);
}

void CudaBackend::build_all(const std::vector<NamedText>& units) {
  refuse_capture();
  engine_.build_all(units, target_);
}

std::unique_ptr<Launches> CudaBackend::launches(std::shared_ptr<const Kernel> kernel,
                                                const std::vector<std::string>& entries,
                                                const KernelConfig& config) {
  return std::make_unique<CudaLaunches>(Place{driver_, context_, *host_, blocks_},
                                        std::move(kernel), entries, config.threads);
}

void CudaBackend::upload(void* to, const void* from, std::size_t bytes) {
  driver_.upload(context_, host_->stream(), to, from, bytes);
}

bool CudaBackend::is_capturing() { return driver_.is_capturing(context_, host_->stream()); }

}  // namespace jitstep::jit
