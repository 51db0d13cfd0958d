// GPU memory and one stream for the tuner, which does not link torch.
#pragma once

#include <memory>
#include <string>

#include "jit/step/cuda_backend.h"

namespace jitstep::tuning {

/// Makes the device's context current in the calling thread. Failures of driver calls throw a CudaError.
class CudaMemory : public jit::CudaHost {
 public:
  /// The driver must outlive the object.
  CudaMemory(jit::CudaDriver& driver, int device);
  ~CudaMemory() override;

  void* stream() override { return stream_; }
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  void record_stream(const std::shared_ptr<void>&) override {}  // there is only one stream

  /// Waits for all work on the stream.
  void finish();
  /// Calls finish(), then copies from device memory to host memory.
  void download(void* to, const void* from, std::size_t bytes);
  /// The driver's name of the device, such as "NVIDIA H100 80GB HBM3".
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
