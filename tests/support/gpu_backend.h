// A GPU without torch: memory and copies directly from the driver, launches on the null stream.
#pragma once

#include <memory>

#include "emulation/step_run.h"
#include "jit/engine/cuda_driver.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"

namespace jitstep::support {
using namespace emulation;

/// For one thread. The constructor makes the GPU's context current.
class GpuBackend : public jit::Backend {
 public:
  /// Contents of new memory: garbage, or memory that a checker treats as unwritten.
  enum class Fresh { kGarbage, kUnwritten };

  /// blocks: maximum number of blocks in a grid. Throws an Error if there is no driver or no GPU.
  GpuBackend(jit::Engine& engine, unsigned blocks, Fresh fresh = Fresh::kGarbage);
  ~GpuBackend() override;

  jit::Target target() const override { return target_; }
  std::shared_ptr<const jit::Kernel> load(const std::string& translation_unit,
                                          const std::string& name) override;
  std::unique_ptr<jit::Launches> launches(std::shared_ptr<const jit::Kernel> kernel,
                                          const std::vector<std::string>& entries,
                                          const jit::KernelConfig& config) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  /// Waits for all launches.
  void download(void* to, const void* from, std::size_t bytes);

  /// The back end and its download function, for run_case.
  Device device();

 private:
  struct Driver;

  jit::Engine& engine_;
  jit::Target target_;
  unsigned blocks_;
  Fresh fresh_;
  std::shared_ptr<const Driver> driver_;
};

}  // namespace jitstep::support
