// NVRTC as a Compiler, for the targets sm_XX. Needs no GPU.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/base/fork_guard.h"
#include "jit/compiler/nvrtc_library.h"
#include "jitstep/jit/compiler.h"
#include "jitstep/jit/settings.h"

namespace jitstep::jit {

/// Opens NVRTC on first use. In a child of a process that has used NVRTC, compile() throws an Error, because NVRTC may
/// hang.
class NvrtcCompiler : public Compiler {
 public:
  /// `driver_version` returns the CUDA version of the machine's driver, or 0 without one. It is called when NVRTC is
  /// opened, because an older driver cannot load kernels of a newer compiler.
  explicit NvrtcCompiler(Settings settings, std::function<int()> driver_version = {})
      : settings_(std::move(settings)), driver_version_(std::move(driver_version)) {}

  Binary compile(const std::string& text, const std::string& name, const Target& target) override;
  const std::string& identity(const Target& target) override;
  bool available(const Target& target) override;
  Fitness fitness(const std::string& identity, const Target& target) const override;

  /// The PTX of a source, for the target's own architecture or the newest older one that NVRTC supports.
  std::string ptx(const std::string& text, const std::string& name, const Target& target);

  /// Adds a folder to search. Has no effect once NVRTC is open.
  void add_folder(const std::string& folder);

 private:
  struct Opened {
    NvrtcLibrary library;
    std::string build;  // the lines of a PTX text with the compiler's build
  };

  const Opened* open(std::string& problem);
  std::vector<std::byte> run(const std::string& text, const std::string& name, const Target& target,
                             const std::string& architecture, std::string& log);
  const Opened& opened();

  Settings settings_;
  std::function<int()> driver_version_;
  ForkSafeMutex mutex_;
  std::unique_ptr<const Opened> opened_;
  std::map<Target, std::string> identities_;
};

/// The architecture option for a GPU: "sm_90" if NVRTC supports it, else the newest older "compute_XX", for which the
/// driver compiles the PTX. Throws an Error if the GPU is older than all supported ones.
std::string architecture_option(const NvrtcLibrary& library, const Target& target);

}  // namespace jitstep::jit
