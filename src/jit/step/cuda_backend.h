// A GPU as the machine that steps run on: launches, tables and the order of streams, through the
// driver alone. What belongs to the program around it comes through a CudaHost.
#pragma once

#include "jit/engine/cuda_driver.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The current stream and the memory of one device, as the program manages them.
class JITSTEP_API CudaHost {
 public:
  virtual ~CudaHost() = default;
  /// The CUstream that this thread's work goes on now. What has the same handle is taken for the
  /// same stream: one made where another was destroyed must wait for that one's work.
  virtual void* stream() = 0;
  /// Memory of the device, aligned to 256 bytes. Others may get it as soon as the pointer is gone and
  /// the work is done that was on the then current stream until then.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// From now on, memory of `allocate` is used on the current stream too.
  virtual void record_stream(const std::shared_ptr<void>& memory) = 0;
};

/// One GPU. Thread safe if its host is; the engine must outlive it.
class JITSTEP_API CudaBackend : public Backend {
 public:
  /// An Error says what is missing: driver, GPU.
  CudaBackend(Engine& engine, int device, std::unique_ptr<CudaHost> host);

  Target target() const override { return target_; }
  std::shared_ptr<const Kernel> load(const std::string& translation_unit,
                                     const std::string& name) override;
  void build_all(const std::vector<NamedText>& units) override;
  ConfigChoice choose_config(const Plan& plan, const WorkSize& size) override;
  std::unique_ptr<Launches> launches(std::shared_ptr<const Kernel> kernel,
                                     const std::vector<std::string>& entries,
                                     const KernelConfig& config) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void upload(void* to, const void* from, std::size_t bytes) override;
  Engine* contract_checker() const override {
    return engine_.settings().check ? &engine_ : nullptr;
  }
  bool is_capturing() override;
  void record_stream(const std::shared_ptr<void>& memory) override { host_->record_stream(memory); }

 private:
  Engine& engine_;
  const CudaDriver& driver_;
  int device_;
  Target target_;
  CudaDevice gpu_;
  std::int64_t blocks_;  // of a launch, at most
  void* context_;
  std::unique_ptr<CudaHost> host_;
  std::shared_ptr<class ConfigChooser> chooser_;
};

}  // namespace jitstep::jit
