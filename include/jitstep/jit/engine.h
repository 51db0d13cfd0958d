// Start here: a translation unit goes in, a loaded kernel comes out. Knows no optimizer and no torch.
#pragma once

#include <cstdint>
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

/// What an engine has done so far, in kernels.
struct Statistics {
  std::uint64_t compiled = 0;
  std::uint64_t failed = 0;       // compiles that threw
  std::uint64_t from_disk = 0;    // found in the cache folder or its read-only layer
  std::uint64_t from_memory = 0;  // asked for again
  double compile_seconds = 0;
};

/// A translation unit and its name; see Engine::kernel.
struct NamedText {
  std::string text, name;
};

/// What an engine works with; null members are opened when first needed.
struct Backends {
  std::shared_ptr<Compiler> host = nullptr;
  std::shared_ptr<Compiler> nvrtc = nullptr;
  std::shared_ptr<CudaDriver> driver = nullptr;
};

/// Turns translation units into kernels: flatten, look up, compile, publish, load.
///
/// Thread safe. Each distinct kernel is compiled once, however many threads ask; no lock is held
/// while it is. A text that does not compile is remembered and its CompileError thrown again.
/// Nothing on disk is touched before the first kernel is asked for.
class JITSTEP_API Engine {
 public:
  /// Touches nothing yet: folders, compilers and drivers are opened when first needed.
  explicit Engine(Settings settings, Backends backends = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// What it was made with.
  const Settings& settings() const;

  /// Where `#include "..."` of translation units is looked up; rules and codecs are added here.
  TemplateStore& templates();

  /// The loaded kernel of a translation unit. `name` is for messages and file markers and belongs to the
  /// text; `device` is the GPU to load it on, ignored for other targets. Slow when new: a step
  /// keeps the kernel instead of asking again.
  std::shared_ptr<const Kernel> kernel(const std::string& translation_unit, const std::string& name,
                                       const Target& target, int device = 0);

  /// The same without loading: needs no GPU and no driver.
  std::shared_ptr<const Built> build(const std::string& translation_unit, const std::string& name,
                                     const Target& target);

  /// Builds several at the same time, in a thread for each processor. Throws what the first that fails does.
  void build_all(const std::vector<NamedText>& units, const Target& target);

  /// The self-contained text that the compilers see.
  std::string preprocessed_text(const std::string& translation_unit, const std::string& name) const;

  /// From now on no baseline of the read-only cache saves a compile: times of one say little about this processor.
  /// Everyone who compares kernels by their times calls it before. JITSTEP_CPU still counts, and kernels that are
  /// loaded stay as they are.
  void skip_baselines();

  /// Adds a folder to look through for libnvrtc; no effect once NVRTC is open.
  void add_nvrtc_folder(const std::string& folder);

  /// The target of a GPU: its compute capability. An Error if there is no driver.
  Target cuda_target(int device);

  /// The CUDA driver this engine uses. An Error that says what to install if there is none.
  CudaDriver& driver();

  /// A snapshot; other threads may be compiling.
  Statistics statistics() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The process's engine, made from the environment at first use and never destroyed: kernels may
/// still be in use while the process ends.
JITSTEP_API Engine& default_engine();

}  // namespace jitstep::jit
