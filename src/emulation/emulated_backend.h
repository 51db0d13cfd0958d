// The back end that runs a GPU kernel's source on the host, lane by lane.
#pragma once

#include "emulation/simt.h"
#include "jitstep/jit/backend.h"
#include "jitstep/jit/engine.h"

namespace jitstep::emulation {

class EmulatedBackend : public jit::Backend {
 public:
  /// `blocks`: maximum grid size. Run with different orders to detect missing barriers.
  EmulatedBackend(jit::Engine& engine, unsigned blocks, BlockOrder order, LaneOrder lanes)
      : engine_(engine), blocks_(blocks), order_(order), lanes_(lanes) {}

  jit::Target target() const override { return jit::Target::emulated(); }
  std::shared_ptr<const jit::Kernel> load(const std::string& translation_unit,
                                          const std::string& name) override;
  std::unique_ptr<jit::Launches> launches(std::shared_ptr<const jit::Kernel> kernel,
                                          const std::vector<std::string>& entries,
                                          const jit::KernelConfig& config) override;
  std::shared_ptr<void> allocate(std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes) override;

 private:
  jit::Engine& engine_;
  unsigned blocks_;
  BlockOrder order_;
  LaneOrder lanes_;
};

}  // namespace jitstep::emulation
