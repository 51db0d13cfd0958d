// The back end for one GPU: launches, uploads and the order of streams, with the CUDA driver API only. The program
// provides streams and memory through a CudaHost.
#pragma once

#include "jit/engine/cuda_driver.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"
#include "jitstep/jit/export.h"

namespace jitstep::jit {

/// The program's current stream and allocator of one device.
class JITSTEP_API CudaHost {
 public:
  virtual ~CudaHost() = default;
  /// The current CUstream of this thread. jitstep identifies streams by their handle. If a new stream gets the handle
  /// of a destroyed one, the program must make it wait for the old stream's work.
  virtual void* stream() = 0;
  /// Device memory, aligned to 256 bytes. The allocator may reuse it once the pointer is released and the work
  /// submitted until then to the stream that is current at that time has finished.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// Tells the allocator that memory of `allocate` is now also used on the current stream.
  virtual void record_stream(const std::shared_ptr<void>& memory) = 0;
};

/// One GPU. Thread safe if its host is. The engine must outlive it.
class JITSTEP_API CudaBackend : public Backend {
 public:
  /// `configs` is that of CpuBackend. Throws an Error if there is no driver or no such GPU.
  CudaBackend(Engine& engine, int device, std::unique_ptr<CudaHost> host,
              ConfigProvider configs = {});

  Target target() const override { return target_; }
  std::shared_ptr<const Kernel> load(const std::string& translation_unit,
                                     const std::string& name) override;
  void build_all(const std::vector<NamedText>& units) override;
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
  std::int64_t blocks_;  // maximum of a launch
  void* context_;
  std::unique_ptr<CudaHost> host_;
};

}  // namespace jitstep::jit
