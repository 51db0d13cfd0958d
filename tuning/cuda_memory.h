// A GPU's memory and one stream, for a tuner: what a program with torch has from torch.
#pragma once

#include <memory>
#include <string>

#include "jit/step/cuda_backend.h"

namespace jitstep::tuning {

/// Makes the device's context current in the thread that calls it. Every failure is a CudaError.
class CudaMemory : public jit::CudaHost {
 public:
  /// The driver must outlive it, and it the memory.
  CudaMemory(jit::CudaDriver& driver, int device);
  ~CudaMemory() override;

  void* stream() override { return stream_; }
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  void record_stream(const std::shared_ptr<void>&) override {}  // there is one

  /// Waits for what was started.
  void finish();
  /// After that, the way back from its memory.
  void download(void* to, const void* from, std::size_t bytes);
  /// As the driver has it, "NVIDIA H100 80GB HBM3".
  std::string device_name() const;

 private:
  struct Api;
  void run(const char* call, int code) const;

  std::shared_ptr<const Api> api_;
  void* context_;
  int device_;
  void* stream_ = nullptr;
};

}  // namespace jitstep::tuning
