// A back end that can record copies and launches instead of executing them, and then replay them. It stands for a CUDA
// graph.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulation/step_run.h"
#include "jitstep/jit/backend.h"

namespace jitstep::support {

/// Forwards everything else to another back end. As in a graph, a replayed copy reads its source again.
class RecordingBackend : public jit::Backend {
 public:
  /// `on` must outlive it.
  explicit RecordingBackend(jit::Backend& on) : on_(on) {}

  /// Records the copies and launches of `work`, and discards earlier ones.
  void record(const std::function<void()>& work);
  void replay() const;
  /// The recorder for StepRun.
  emulation::Graphs graphs();

  jit::Target target() const override { return on_.target(); }
  std::shared_ptr<const jit::Kernel> load(const std::string& text,
                                          const std::string& name) override;
  std::unique_ptr<jit::Launches> launches(std::shared_ptr<const jit::Kernel> kernel,
                                          const std::vector<std::string>& entries,
                                          const jit::KernelConfig& config) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override { return on_.allocate(bytes); }
  void upload(void* to, const void* from, std::size_t bytes) override;
  bool is_capturing() override { return recording_; }

 private:
  class RecordedLaunches;

  jit::Backend& on_;
  bool recording_ = false;
  std::vector<std::function<void()>> work_;
};

}  // namespace jitstep::support
