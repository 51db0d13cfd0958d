// NVRTC as a Compiler: targets sm_XX. Needs no GPU.
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

/// Opens NVRTC at the first call. In a child of a process that has used NVRTC compiling is an
/// Error, as NVRTC may hang there.
class NvrtcCompiler : public Compiler {
 public:
  /// `driver_version` gives the CUDA version of the machine's driver, 0 if there is none; it is asked
  /// when NVRTC is opened, as newer compilers' kernels do not load there.
  explicit NvrtcCompiler(Settings settings, std::function<int()> driver_version = {})
      : settings_(std::move(settings)), driver_version_(std::move(driver_version)) {}

  Binary compile(const std::string& text, const std::string& name, const Target& target) override;
  const std::string& identity(const Target& target) override;
  bool available(const Target& target) override;
  Fitness fitness(const std::string& identity, const Target& target) const override;

  /// The PTX of a text: of the target's own architecture, or the newest older one that NVRTC knows.
  std::string ptx(const std::string& text, const std::string& name, const Target& target);

  /// Adds a folder to look through; no effect once NVRTC is open.
  void add_folder(const std::string& folder);

 private:
  struct Opened {
    NvrtcLibrary library;
    std::string build;  // the lines of a PTX text that name the compiler's build
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

/// What NVRTC generates for a GPU: "sm_90" if it knows it, else the newest older "compute_XX" as
/// PTX for the driver to finish. An Error if the GPU is older than all it knows.
std::string architecture_option(const NvrtcLibrary& library, const Target& target);

}  // namespace jitstep::jit
