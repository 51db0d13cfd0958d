// Start here. The engine turns a translation unit into a loaded kernel. Knows neither optimizers nor torch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "jitstep/jit/compiler.h"
#include "jitstep/jit/export.h"
#include "jitstep/jit/kernel.h"
#include "jitstep/jit/settings.h"
#include "jitstep/jit/target.h"
#include "jitstep/jit/template_store.h"

namespace jitstep::jit {

class CudaDriver;

/// Counts of kernels in an engine.
struct Statistics {
  std::int64_t compiled = 0;
  std::int64_t failed = 0;       // compiles that threw
  std::int64_t from_disk = 0;    // read from a cache folder, even if damaged and compiled again
  std::int64_t from_memory = 0;  // requested again
  double compile_seconds = 0;
};

/// A translation unit and its name; see Engine::kernel.
struct NamedText {
  std::string text, name;
};

/// The compilers and the CUDA driver of an engine. Null members are opened on first use.
struct Toolchain {
  std::shared_ptr<Compiler> host = nullptr;
  std::shared_ptr<Compiler> nvrtc = nullptr;
  std::shared_ptr<CudaDriver> driver = nullptr;
};

/// Turns translation units into kernels: preprocess, look up in the cache, compile, store in the cache, load.
///
/// Thread safe. Each distinct kernel is compiled once, however many threads request it, and no lock is held during the
/// compile. The CompileError of a source is cached and thrown again.
class JITSTEP_API Engine {
 public:
  /// Opens files, folders, compilers and drivers only on first use. Relative paths in the settings are relative to the
  /// working directory of this call.
  explicit Engine(Settings settings, Toolchain toolchain = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The settings from construction.
  const Settings& settings() const;

  /// Resolves `#include "..."` in translation units. Add rules and codecs here.
  TemplateStore& templates();

  /// The loaded kernel of a translation unit. `name` is for messages and file markers, and part of the source. `device`
  /// is the GPU that loads it, ignored for other targets. Slow for a new kernel, so a step stores the kernel.
  std::shared_ptr<const Kernel> kernel(const std::string& translation_unit, const std::string& name,
                                       const Target& target, int device = 0);

  /// The same without loading. Needs no GPU and no driver.
  std::shared_ptr<const Built> build(const std::string& translation_unit, const std::string& name,
                                     const Target& target);

  /// Builds several kernels in parallel, with one thread per processor. Throws the first error.
  void build_all(const std::vector<NamedText>& units, const Target& target);

  /// The preprocessed source that the compilers get.
  std::string preprocessed_text(const std::string& translation_unit, const std::string& name) const;

  /// Disables baselines of the read-only cache, because their timings do not apply to this processor. Call it before
  /// you compare kernels by time. JITSTEP_CPU stays in effect. Loaded kernels stay.
  void skip_baselines();

  /// Adds a folder to search for libnvrtc. Has no effect once NVRTC is open.
  void add_nvrtc_folder(const std::string& folder);

  /// The target of a GPU, from its compute capability. Throws an Error without a driver.
  Target cuda_target(int device);

  /// Returns a snapshot. Other threads may be compiling.
  Statistics statistics() const;

 private:
  friend CudaDriver& driver_of(Engine& engine);
  friend Compiler& compiler_of(Engine& engine, const Target& target);

  struct State;
  std::unique_ptr<State> state_;
};

/// The engine of this process, made from the environment on first use. Never destroyed, because kernels may be in use
/// while the process exits.
JITSTEP_API Engine& default_engine();

/// Changes the settings of default_engine() after they are read from the environment, for programs whose package brings
/// kernels or a compiler. `change` must not use that engine. Throws an Error if the engine exists already. Thread safe.
JITSTEP_API void set_default_settings(std::function<void(Settings&)> change);

}  // namespace jitstep::jit
